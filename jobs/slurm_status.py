"""The one place that says how a Slurm job stands: squeue and sacct, merged; the newer fact wins.

The rules, with their reasons:
- squeue lists a job: that is the controller's own word and stands, whatever accounting says
  (slurmdbd lags, and shows a requeued job's earlier end).
- squeue does not list it: only a final state in accounting is an end. Anything else accounting
  says is older than squeue's silence, so the job's state is unknown.
- squeue cannot be asked: a final state in accounting is an end, unless Slurm may start the same
  job again (PREEMPTED, NODE_FAIL): then unknown, until the controller answers.
- A failed, empty or late answer is never an end. Unknown lasts until a fact comes, or until the
  caller's patience ends: `unknown_s` tells for how long it has lasted.

Ids are never given to squeue: one that the controller has forgotten fails the whole call
(`Invalid job id specified`). Works with Slurm 22.05 to 24.11: only columns that both print.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from jobs.job_states import MAY_RETURN, JobState, parse_job_id, parse_state
from jobs.slurm_ask import NO_ACCOUNTING, Answer, Asker, ask_slurm

SQUEUE = ("squeue", "--noheader", "--states=all", "--me", "--format=%i|%T|%N|%r")
SACCT = ("sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,NodeList")

UNKNOWN = JobState("", "unknown")
IDS_PER_CALL = 200


@dataclass(frozen=True, slots=True)
class Fact:
    """What one source says of one job."""

    state: JobState
    nodes: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job stands.

    `state.phase` is waiting, running, ended or unknown. `unknown_s` is how long nothing has been
    known; `last` the last state that was. `listed` is whether the controller lists it: True,
    False, or None when it could not be asked. `said` tells people why nothing is known.
    """

    job_id: str
    state: JobState
    listed: bool | None
    nodes: str = ""
    reason: str = ""
    unknown_s: float = 0.0
    last: JobState = UNKNOWN
    said: str = ""


@dataclass(slots=True)
class SlurmStatus:
    """Asks about some jobs again and again; remembers what it has seen of each."""

    asker: Asker = ask_slurm
    clock: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    """Words of Slurm's that are not known here, each once."""
    _last: dict[str, tuple[JobState, float]] = field(default_factory=dict)

    def look(self, job_ids: Iterable[str]) -> dict[str, JobStatus]:
        """The status of each job, from one squeue and, for those it does not list, sacct."""
        wanted = list(dict.fromkeys(job_ids))
        queue_answer = self.asker(SQUEUE)
        queue = parse_rows(queue_answer.out, ("nodes", "reason")) if queue_answer.good else {}
        missing = [job_id for job_id in wanted if job_id not in queue]
        book, book_said = self._accounting(missing)
        listed = queue_answer.good or None
        found = {}
        for job_id in wanted:
            fact = merged(queue.get(job_id), book.get(job_id), queue_answer.good)
            said = "; ".join(filter(None, (_squeue_said(queue_answer), book_said)))
            found[job_id] = self._status(job_id, fact, listed and job_id in queue, said)
        return found

    def _accounting(self, job_ids: list[str]) -> tuple[dict[str, Fact], str]:
        """sacct's facts, and what to tell people where it has none."""
        book: dict[str, Fact] = {}
        said = ""
        for start in range(0, len(job_ids), IDS_PER_CALL):
            some = job_ids[start : start + IDS_PER_CALL]
            answer = self.asker((*SACCT, f"--jobs={','.join(some)}"))
            if answer.good:
                book |= parse_rows(answer.out, ("nodes",))
                said = said or "sacct has no final state"
            elif any(words in answer.err for words in NO_ACCOUNTING):
                said = "this cluster keeps no accounting"
            else:
                said = f"sacct: {answer.said}"
        return book, said

    def _status(self, job_id: str, fact: Fact, listed: bool | None, said: str) -> JobStatus:
        now, state = self.clock(), fact.state
        if state.warning and state.word and state.warning not in self.warnings:
            self.warnings.append(state.warning)
        last, since = self._last.setdefault(job_id, (UNKNOWN, now))
        if state.phase != "unknown":
            self._last[job_id] = (state, now)
            return JobStatus(job_id, state, listed, fact.nodes, fact.reason, last=state)
        return JobStatus(
            job_id, state, listed, fact.nodes, fact.reason, now - since, last, said=said
        )


def merged(queue: Fact | None, book: Fact | None, queue_answered: bool) -> Fact:
    """squeue's and sacct's facts about one job as one, by the rules above."""
    if queue is not None:
        return queue
    if book is None or book.state.phase == "waiting":
        return Fact(UNKNOWN)
    if book.state.phase == "ended":
        returns = book.state.word in MAY_RETURN
        return book if queue_answered or not returns else Fact(UNKNOWN, book.nodes)
    return Fact(book.state if book.state.phase == "unknown" else UNKNOWN, book.nodes)


def parse_rows(text: str, columns: Collection[str]) -> dict[str, Fact]:
    """Rows `id|state|...` by id; steps, headers, cut ids and broken rows are left out.

    An array's tasks have their own rows and keep their whole id (`123_4`).
    """
    facts = {}
    for line in text.splitlines():
        cells = line.split("|", 1 + len(columns))
        ident = parse_job_id(cells[0])
        if len(cells) < 2 or ident.job is None or ident.step:
            continue
        more = dict(zip(columns, (cell.strip() for cell in cells[2:]), strict=False))
        facts[cells[0].strip()] = Fact(
            parse_state(cells[1]), more.get("nodes", ""), more.get("reason", "")
        )
    return facts


def _squeue_said(answer: Answer) -> str:
    return "squeue does not list it" if answer.good else f"squeue: {answer.said}"
