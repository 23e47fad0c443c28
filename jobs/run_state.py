"""How a run stands: its own files first, then Slurm, and what it means when they disagree."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from jobs.plain_files import is_forbidden
from jobs.record_files import read_object, read_record
from jobs.records import Outcome, RecordError
from jobs.run_lock import holder, is_being_submitted
from jobs.slurm_status import JobStatus, SlurmStatus
from jobs.store import RunDir
from jobs.submission import grace_s

STATUSES = ("completed", "failed", "cancelled", "timed_out")


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run stands.

    `word` is waiting, running, completed, failed, cancelled, timed_out, lost or unknown; `over`
    whether nothing more will come of it. `text` says it for people. `job` is Slurm's side.
    """

    word: str
    over: bool
    text: str
    outcome: Outcome | None = None
    job: JobStatus | None = None


@dataclass(slots=True)
class RunWatch:
    """Looks at one run again and again; needs no daemon and no memory but its own."""

    run_dir: RunDir
    slurm: SlurmStatus = field(default_factory=SlurmStatus)
    owner: str | None = None
    """The run's id, where it was read before."""

    def look(self) -> RunState:
        """The run's state now. A record that is torn or foreign is told, and not believed."""
        outcome, torn = read_outcome(self.run_dir, self.owner)
        if outcome is not None and outcome.status == "completed":
            return RunState("completed", True, "completed", outcome)
        submitting = is_being_submitted(self.run_dir)  # looked at before what it ends with
        record = submission(self.run_dir)
        if not record and outcome is None and submitting:
            return RunState("waiting", False, "its launcher is submitting it")
        if record.get("executor") == "slurm":
            return self._on_slurm(str(record.get("job_id")), outcome, torn)
        return self._here(record, outcome, torn)

    def _on_slurm(self, job_id: str, outcome: Outcome | None, torn: str) -> RunState:
        job = self.slurm.look([job_id])[job_id]
        phase, word = job.state.phase, job.state.word
        if outcome is not None and phase != "waiting":
            return RunState(outcome.status, True, _ended(outcome), outcome, job)
        if phase in ("waiting", "running"):
            again = " again (Slurm put it back)" if outcome else ""
            why = f", {job.reason}" if job.reason and job.reason != "None" else ""
            return RunState(phase, False, f"job {job_id} is {word}{why}{again}", None, job)
        if phase == "ended":
            by = f" by {job.state.by}" if job.state.by else ""
            text = f"job {job_id} is over ({word}{by}) {self._silence(torn)}"
            return RunState("lost", True, text, None, job)
        text = f"job {job_id}: {job.said}; nothing known for {job.unknown_s:.0f} s"
        if job.last.word:
            text += f", before that {job.last.word}"
        if job.unknown_s < grace_s(self.run_dir):
            return RunState("unknown", False, text + torn, None, job)
        return RunState("lost", True, f"{text}: given up{torn}", None, job)

    def _here(self, record: dict[str, object], outcome: Outcome | None, torn: str) -> RunState:
        """A run of this machine: its lock is held while its driver lives."""
        if outcome is not None:
            return RunState(outcome.status, True, _ended(outcome), outcome)
        who = holder(self.run_dir)
        if who is not None:
            return RunState("running", False, f"running ({who})")
        if not self.run_dir.allocation.exists() and _alive(record.get("job_id")):
            return RunState("waiting", False, "its driver starts")
        for file in (self.run_dir.run_json, self.run_dir.outcome, self.run_dir.submission):
            if is_forbidden(file):
                return RunState("unknown", False, f"{file} may not be read: ask its owner")
        return RunState("lost", True, f"no driver works on it; it ended {self._silence(torn)}")

    def _silence(self, torn: str) -> str:
        """What is missing of a run that is over without an outcome."""
        files = (self.run_dir.events, self.run_dir.allocation, self.run_dir.outcome)
        if not any(os.path.lexists(file) for file in files):
            if not os.path.lexists(self.run_dir.submission):
                return "before it was submitted: its launcher was ended, or this is no run of ours"
            log = self.run_dir.path / "submitit"
            return f"before its driver began: nothing was started; {log} may say why"
        return f"without a last word of its driver{torn}"


def read_outcome(run_dir: RunDir, owner: object = None) -> tuple[Outcome | None, str]:
    """outcome.json where it can be believed, and what is wrong with it where not."""
    if not os.path.lexists(run_dir.outcome):
        return None, ""
    try:
        outcome = read_record(Outcome, run_dir.outcome)
        owner = owner or read_object(run_dir.run_json).get("run_id")
    except RecordError as error:
        return None, f"; not believed: {error}"
    if outcome.run_id != owner:
        return None, f"; not believed: {run_dir.outcome} belongs to run {outcome.run_id!r:.80}"
    if outcome.status not in STATUSES:
        return None, f"; not believed: {run_dir.outcome} has status {outcome.status!r:.80}"
    return outcome, ""


def submission(run_dir: RunDir) -> dict[str, object]:
    """submission.json; empty where it is not there (yet) or is torn."""
    try:
        return read_object(run_dir.submission)
    except RecordError:
        return {}


def _ended(outcome: Outcome) -> str:
    first = outcome.cause.splitlines()[0] if outcome.cause else ""
    return f"{outcome.status}{': ' if first else ''}{first}"


def _alive(pid: object) -> bool:
    """Whether the process that submitit started still lives; one not yet collected does not."""
    try:
        text = Path("/proc", str(int(str(pid))), "stat").read_text(errors="replace")
    except (OSError, ValueError):
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")
