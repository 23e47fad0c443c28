"""`cancel`: ends runs in order, by what their own records say (job ids, the driver's process)."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.allocation import utc_now
from jobs.errors import RunRefusedError
from jobs.plain_text import printable
from jobs.records import Outcome, to_json
from jobs.run_lock import held
from jobs.runs.driver import read_driver
from jobs.runs.finding import short_name
from jobs.runs.looking import Seen, Watcher
from jobs.slurm_ask import Asker, ask_slurm
from jobs.slurm_status import JobStatus
from jobs.store import RunDir, write_json

POLL_S = 0.5
ASK_SLURM_S = 2.0
FORCE_AFTER_S = 45.0
"""An orderly tear-down takes 12 s and a slow file system's time; then Slurm ends the job."""

GIVE_UP_S = 90.0
BEGIN_S = 15.0
"""How long a local driver that is about to begin is waited for."""


@dataclass(slots=True)
class Cancelling:
    """Runs on their way to their ends; `say` tells people, one line at a time."""

    runs: Sequence[RunDir]
    say: Callable[[str], None]
    asker: Asker = ask_slurm
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    watcher: Watcher = field(init=False)
    _told: dict[RunDir, str] = field(default_factory=dict)
    _failed: dict[RunDir, str] = field(default_factory=dict)
    _settled: set[RunDir] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.runs)
        self.watcher.slurm.asker = self.asker

    def until_ended(self) -> int:
        """0 when every run is over (or was already), 1 when one could not be ended."""
        begun, asked_at = self.clock(), float("-inf")
        first = True
        while len(self._settled) + len(self._failed) < len(self.runs):
            if self.clock() - asked_at >= ASK_SLURM_S:
                self.watcher.ask_slurm()
                asked_at = self.clock()
            for one in self.watcher.look():
                run = one.facts.run_dir
                if run not in self._settled and run not in self._failed:
                    self._step(one, self.clock() - begun, first)
            first = False
            self.sleep(POLL_S)
        for run, why in self._failed.items():
            self.say(f"{short_name(run)}: NOT cancelled: {why}")
        return 1 if self._failed else 0

    def _step(self, one: Seen, after_s: float, first: bool) -> None:
        run = one.facts.run_dir
        if one.standing.over:
            self._end(one, first)
        elif owner := _other_owner(run):
            self._failed[run] = f"it is {owner}'s run: ask them to cancel it"
        elif one.facts.submission.executor == "slurm":
            self._slurm(one, after_s)
        elif one.facts.submission.executor == "local" or read_driver(run):
            self._local(one, after_s)
        elif one.standing.state.word == "waiting":
            if after_s > GIVE_UP_S:
                self._failed[run] = "its launcher is still submitting it: end that, or ask again"
        else:
            self._failed[run] = "no submission.json of ours: nothing is known that could be ended"

    def _end(self, one: Seen, first: bool) -> None:
        run, facts = one.facts.run_dir, one.facts
        self._settled.add(run)
        if first:
            self.say(f"{_name(one)}: has ended already ({one.standing.text}); nothing was done")
            return
        if one.standing.state.outcome is None:
            _write_never_began(one)
        parts = [one.standing.text, f"{len(facts.points)} of {facts.planned} points kept"]
        torn = one.standing.state.outcome.teardown if one.standing.state.outcome else None
        if torn is not None:
            left = f"left: {', '.join(torn.survivors)}" if torn.survivors else "none left"
            parts.append(f"{torn.processes} processes stopped in {torn.seconds:.1f} s, {left}")
        self.say(f"{_name(one)}: {printable('; '.join(parts))}")

    def _slurm(self, one: Seen, after_s: float) -> None:
        run, job_id = one.facts.run_dir, one.facts.submission.job_id
        job = self.watcher.slurm.look([job_id])[job_id]
        if job.listed is None:
            self._failed[run] = f"job {job_id}: {job.said}; ask again when Slurm answers"
        elif job.listed is False and job.state.phase == "unknown":
            self._settled.add(run)
            self.say(f"{_name(one)}: job {job_id} is not in Slurm's queue any more ({job.said})")
        elif after_s > GIVE_UP_S:
            self._failed[run] = f"job {job_id} is still {job.state.word} after {after_s:.0f} s"
        else:
            self._scancel(one, job, after_s)

    def _scancel(self, one: Seen, job: JobStatus, after_s: float) -> None:
        """A waiting job is taken back; a running one's driver gets TERM and tears down."""
        if job.state.phase == "waiting":
            what, options = "is taken back", ["--state=PENDING"]
        elif after_s > FORCE_AFTER_S:
            what, options = f"is still there after {after_s:.0f} s: Slurm ends it", []
        else:
            what, options = "its driver is asked to end the run", ["--batch", "--signal=TERM"]
        run = one.facts.run_dir
        if self._told.get(run, "").startswith(what[:20]):
            return
        answer = self.asker(["scancel", *options, job.job_id])
        if not answer.good:
            if answer.out_of_reach:
                self._failed[run] = f"job {job.job_id}: scancel: {answer.said}"
            return
        self._told[run] = what
        self.say(f"{_name(one)}: job {job.job_id} ({job.state.word}) {what}")

    def _local(self, one: Seen, after_s: float) -> None:
        run = one.facts.run_dir
        driver = read_driver(run)
        if driver is None:
            if after_s > BEGIN_S:
                self._failed[run] = "its driver has not begun, so there is no process to end"
        elif not driver.here:
            self._failed[run] = f"its driver runs on {printable(driver.host)}: cancel it there"
        elif run not in self._told:
            if driver.started is None:
                self._failed[run] = (
                    f"{run.lock} does not say when pid {driver.pid} began, so it may be another's "
                    "by now: look, then kill -TERM it yourself"
                )
                return
            self._told[run] = "TERM"
            if driver.terminate():
                self.say(f"{_name(one)}: its driver (pid {driver.pid}) is asked to end the run")
        elif after_s > GIVE_UP_S:
            self._failed[run] = f"its driver (pid {driver.pid}) still lives after {after_s:.0f} s"


def _other_owner(run: RunDir) -> str:
    """The name of another user whose run it is: Slurm is asked about one's own jobs only."""
    try:
        user = run.path.stat().st_uid
    except OSError:
        return ""
    if user == os.getuid():
        return ""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _name(one: Seen) -> str:
    return f"{short_name(one.facts.run_dir)} {one.facts.label}"


def _write_never_began(one: Seen) -> None:
    """A run that was taken back before it began gets its last word from us."""
    facts = one.facts
    if one.standing.word != "cancelled" or facts.spec is None:
        return
    now = utc_now()
    outcome = Outcome(
        run_id=facts.spec.run_id,
        status="cancelled",
        phase="queued",
        cause=f"job {facts.submission.job_id} was taken back before it began",
        started_at=now,
        ended_at=now,
        points_written=0,
        points_planned=facts.planned,
    )
    try:
        with held(facts.run_dir):
            if not facts.run_dir.outcome.exists():
                write_json(facts.run_dir.outcome, to_json(outcome))
    except (OSError, RunRefusedError):
        return
