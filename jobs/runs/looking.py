"""Several runs looked at together: Slurm is asked once, and before the files are read.

In this order a run that ended between the two looks is never taken for lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.runs.facts import JOB_ID, RunFacts, read_facts
from jobs.runs.standing import BulkStatus, Standing, stand
from jobs.store import RunDir


@dataclass(slots=True)
class Seen:
    """A run's facts and standing at one look."""

    facts: RunFacts
    standing: Standing


@dataclass(slots=True)
class Watcher:
    """The same runs looked at again and again."""

    runs: Sequence[RunDir]
    slurm: BulkStatus = field(default_factory=BulkStatus)
    brief: bool = False
    _facts: dict[RunDir, RunFacts] = field(default_factory=dict)
    _over: set[RunDir] = field(default_factory=set)

    def ask_slurm(self) -> None:
        """Slurm's side of every run that is not known to be over, asked anew."""
        self.slurm.ask(job_ids(run for run in self.runs if run not in self._over))

    def look(self) -> list[Seen]:
        """Every run now, with Slurm's side as it was asked last."""
        seen = []
        for run in self.runs:
            facts = self._facts.get(run)
            if facts is None:
                facts = self._facts[run] = read_facts(run, self.brief)
            else:
                facts.refresh()
            one = Seen(facts, stand(facts, self.slurm))
            (self._over.add if one.standing.over else self._over.discard)(run)
            seen.append(one)
        return seen


def job_ids(runs: Iterable[RunDir]) -> list[str]:
    """Ids of the Slurm jobs that the runs' own records name."""
    return [job_id for run in runs if (job_id := slurm_job(run))]


def slurm_job(run: RunDir) -> str:
    """The Slurm job in a run's own submission.json; "" when there is none of ours."""
    try:
        record = read_object(run.submission)
    except RecordError:
        return ""
    job_id = str(record.get("job_id", ""))
    return job_id if record.get("executor") == "slurm" and JOB_ID.fullmatch(job_id) else ""


def look_once(runs: Sequence[RunDir], brief: bool = False) -> tuple[list[Seen], list[str]]:
    """All runs at one look, and what a reader should be warned of."""
    watcher = Watcher(runs, brief=brief)
    watcher.ask_slurm()
    seen = watcher.look()
    return seen, [*watcher.slurm.warnings, *(w for one in seen for w in one.facts.warnings)]
