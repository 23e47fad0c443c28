"""Where a run stands in people's words, Slurm's word beside it, and where the two disagree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jobs.plain_text import printable
from jobs.run_state import RunState, RunWatch
from jobs.runs.driver import read_driver
from jobs.runs.facts import RunFacts
from jobs.runs.measuring import POINT
from jobs.runs.timeline import seconds
from jobs.slurm_status import JobStatus, SlurmStatus

STARTING = ("allocation", "preflight", "stage", "start", "router", "canary")
SETTLE_S = 60.0
"""Slurm may list a job as running for this long after the run's own last word."""


@dataclass(slots=True)
class BulkStatus(SlurmStatus):
    """Slurm asked once about many jobs; until it is asked again, `look` answers from that."""

    _now: dict[str, JobStatus] = field(default_factory=dict)

    def ask(self, job_ids: Iterable[str]) -> None:
        """One squeue, and sacct for what it does not list."""
        wanted = list(dict.fromkeys(job_ids))
        if wanted:
            self._now |= SlurmStatus.look(self, wanted)

    def look(self, job_ids: Iterable[str]) -> dict[str, JobStatus]:
        """What was found; jobs that were not asked about are asked about now."""
        wanted = list(job_ids)
        missing = [job_id for job_id in wanted if job_id not in self._now]
        if missing:
            self._now |= SlurmStatus.look(self, missing)
        return {job_id: self._now[job_id] for job_id in wanted}


@dataclass(frozen=True, slots=True)
class Standing:
    """One run now.

    `word` is queued, starting, sweep, accuracy, ending, completed, failed, cancelled, timed_out,
    lost or unknown; `text` says the same with how far it is. `slurm` is Slurm's word, "" for a
    local run. `remark` is empty, or why it ended, or how the two sides disagree (`disagrees`).
    """

    word: str
    text: str
    over: bool
    good: bool
    slurm: str
    remark: str
    disagrees: bool
    state: RunState


def stand(facts: RunFacts, slurm: SlurmStatus, now: float | None = None) -> Standing:
    """The run's standing from its files and from what is known of its job."""
    own = facts.spec.run_id if facts.spec else None
    state = _seen_from_here(facts, RunWatch(facts.run_dir, slurm, own).look())
    job_id = facts.submission.job_id if facts.submission.executor == "slurm" else ""
    job = slurm.look([job_id])[job_id] if job_id else None
    word, text = _own_words(facts, state)
    now = time.time() if now is None else now
    quarrel = next(filter(None, (rule(facts, state, job, now) for rule in DISAGREEMENTS)), "")
    return Standing(
        word=word,
        text=text,
        over=state.over,
        good=state.word == "completed",
        slurm=printable(_slurm_word(job)),
        remark=printable(quarrel or _remark(state)),
        disagrees=bool(quarrel),
        state=state,
    )


def _seen_from_here(facts: RunFacts, state: RunState) -> RunState:
    """A lock that a driver of another machine holds cannot be seen here: no word of its end."""
    driver = read_driver(facts.run_dir) if state.word == "lost" else None
    if driver is None or driver.here or facts.submission.executor == "slurm":
        return state
    text = f"its driver runs, or ran, on {driver.host}: ask there"
    return RunState("unknown", False, text)


def _own_words(facts: RunFacts, state: RunState) -> tuple[str, str]:
    """The word, and the word with how far it is."""
    if state.over:
        return _end_words(facts, state)
    phase = facts.timeline.phase
    if state.word == "waiting" and not facts.submission.executor:
        return "queued", "being submitted"
    if state.word == "waiting":
        return ("queued", "queued again") if phase else ("queued", "queued")
    if phase is None and state.word == "unknown" and state.job is None:
        return "unknown", "unknown"
    if phase is None:
        return "starting", "starting: its driver begins"
    if phase in STARTING:
        return "starting", f"starting: {_start_up(facts, phase)}"
    if phase.startswith(POINT):
        landed, planned = len(facts.points), facts.planned
        return "sweep", f"sweep {landed}/{planned}, at {phase.removeprefix(POINT)}"
    if phase == "accuracy":
        wanted = facts.spec.plan.accuracy.repeats if facts.spec and facts.spec.plan.accuracy else 0
        return "accuracy", f"accuracy {len(facts.repeats)}/{wanted}"
    return "ending", f"ending ({phase})"


def _end_words(facts: RunFacts, state: RunState) -> tuple[str, str]:
    if state.word == "lost" and _never_began(facts) and _cancelled(state.job):
        return "cancelled", "cancelled before it began"
    if state.word == "lost" and facts.spec and _never_began(facts):
        return "lost", "lost before it began"
    where = state.outcome.phase if state.outcome and state.word != "completed" else ""
    said = state.word.replace("_", " ")
    return state.word, f"{said} in {printable(where)}" if where else said


def _start_up(facts: RunFacts, phase: str) -> str:
    """How many workers are ready, and what the slowest do."""
    last = facts.timeline.last
    if phase == "stage" and last and last.event == "staging":
        return f"stage: {last.text}"
    if phase != "start" or facts.spec is None:
        return phase
    names = [worker.name for worker in facts.spec.plan.workers]
    stories = [facts.timeline.steps.get(name) for name in names]
    at = [story.start_up or "launch" if story else "launch" for story in stories]
    ready = at.count("ready")
    rest = sorted({word for word in at if word != "ready"})
    return f"{ready}/{len(names)} workers ready" + (f", {', '.join(rest[:3])}" if rest else "")


def _never_began(facts: RunFacts) -> bool:
    return facts.timeline.phase is None and not facts.allocation


def _cancelled(job: JobStatus | None) -> bool:
    return job is not None and job.state.word == "CANCELLED"


def _slurm_word(job: JobStatus | None) -> str:
    if job is None:
        return ""
    if job.state.phase != "unknown":
        return job.state.word
    return f"? (was {job.last.word})" if job.last.word else "?"


def _remark(state: RunState) -> str:
    """Why it ended, or why it does not go on."""
    if state.outcome and state.outcome.cause:
        return state.outcome.cause.strip().splitlines()[0]
    return "" if state.word in ("completed", "running") else state.text


Rule = Callable[[RunFacts, RunState, JobStatus | None, float], str]


def _lives_on(_facts: RunFacts, state: RunState, job: JobStatus | None, now: float) -> str:
    """Our end is written, Slurm has the job running for more than a minute since."""
    if not state.outcome or not job or job.state.phase != "running":
        return ""
    try:
        since = now - seconds(state.outcome.ended_at)
    except (ValueError, OverflowError):
        return ""
    if since < SETTLE_S:
        return ""
    return (
        f"the run says {state.outcome.status} {since / 60:.0f} min ago, "
        f"Slurm says {job.state.word}: look at the job's processes"
    )


def _waits_again(facts: RunFacts, state: RunState, job: JobStatus | None, _now: float) -> str:
    """The run began (or even ended), and Slurm has the job waiting."""
    if not job or job.state.phase != "waiting" or not (facts.timeline.phase or state.outcome):
        return ""
    own = state.outcome.status if state.outcome else f"began ({facts.timeline.phase})"
    why = f" ({job.reason})" if job.reason not in ("", "None") else ""
    return f"the run says {own}, Slurm says {job.state.word}{why}: Slurm put it back"


def _ended_otherwise(_facts: RunFacts, state: RunState, job: JobStatus | None, _now: float) -> str:
    """Both sides ended, one well and one badly."""
    if not state.outcome or not job or job.state.phase != "ended":
        return ""
    good = state.outcome.status == "completed"
    if good == (job.state.word == "COMPLETED"):
        return ""
    return f"the run says {state.outcome.status}, Slurm says {job.state.word}"


def _no_last_word(facts: RunFacts, state: RunState, job: JobStatus | None, _now: float) -> str:
    """Slurm's job is over, the run never said so."""
    if state.outcome or not job or job.state.phase != "ended":
        return ""
    if _never_began(facts):
        return f"Slurm says {job.state.word}, the run never began"
    return (
        f"Slurm says {job.state.word}, the run left no last word (it was in {facts.timeline.phase})"
    )


DISAGREEMENTS: Sequence[Rule] = (_lives_on, _waits_again, _ended_otherwise, _no_last_word)
