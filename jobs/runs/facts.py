"""One run as its directory tells it, and as it grows; what is torn or foreign is told once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.landed import look_at_records
from jobs.plain_text import printable
from jobs.record_files import read_object, read_typed, typed
from jobs.records import AccuracyRepeat, BenchPoint, RecordError
from jobs.run_spec import RunSpec
from jobs.runs.timeline import Timeline, seconds
from jobs.store import RunDir

JOB_ID = re.compile(r"\d{1,12}(?:_\d{1,9})?")


@dataclass(frozen=True, kw_only=True)
class Described(RunSpec):
    """run.json as a row of `list` needs it: a plan's commands and configuration are large."""

    created: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """submission.json: who took the run, under which id, and where its driver's output goes."""

    executor: str = ""
    job_id: str = ""
    log: Path | None = None


@dataclass(slots=True)
class RunFacts:
    """What is known of a run. `spec` is None where run.json cannot be read as a plan."""

    run_dir: RunDir
    spec: RunSpec | None = None
    label: str = ""
    created: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    submission: Submission = field(default_factory=Submission)
    allocation: dict[str, Any] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=lambda: Timeline(Path()))
    points: dict[int, BenchPoint] = field(default_factory=dict)
    repeats: dict[int, AccuracyRepeat] = field(default_factory=dict)
    canary: str = ""
    warnings: list[str] = field(default_factory=list)
    brief: bool = False
    """A row of many: the events of a run that has left its last word are left unread, and labels,
    configuration, plan and provenance are left out."""
    _seen: dict[Path, tuple[int, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder's name, harmless for a terminal."""
        return printable(self.run_dir.path.name)

    @property
    def planned(self) -> int:
        """Points in the plan."""
        return len(self.spec.plan.points) if self.spec else 0

    def refresh(self) -> None:
        """Takes in what was added since the last look."""
        for path, take in (
            (self.run_dir.submission, self._take_submission),
            (self.run_dir.allocation, self._take_allocation),
            (self.run_dir.canary, self._take_canary),
        ):
            if self._changed(path):
                take(self._object(path))
        if not (self.brief and self.run_dir.outcome.exists()):
            self.timeline.read()
        if self.timeline.bad_lines:
            self._warn(f"{self.run_dir.events}: {self.timeline.bad_lines} lines cannot be read")
            self.timeline.bad_lines = 0
        points, repeats = map(self._changed, (self.run_dir.points, self.run_dir.accuracy))
        if self.spec and (points or repeats):
            self._read_records(self.spec)

    def _changed(self, path: Path) -> bool:
        """Whether a file or folder is there and is not the one seen last."""
        try:
            status = path.lstat()
        except OSError:
            return False
        mark = (status.st_mtime_ns, status.st_ino)
        before, self._seen[path] = self._seen.get(path), mark
        return before != mark

    def _take_submission(self, data: dict[str, Any]) -> None:
        executor, job_id = str(data.get("executor", "")), str(data.get("job_id", ""))
        if executor not in ("slurm", "local") or not JOB_ID.fullmatch(job_id):
            if data:
                self._warn(f"{self.run_dir.submission}: no executor or job id of ours, not used")
            return
        log = Path(str(data["log"])) if data.get("log") else None
        if log and not log.resolve().is_relative_to(self.run_dir.path.resolve()):
            self._warn(f"{self.run_dir.submission}: its log lies outside the run, not used")
            log = None
        self.submission = Submission(executor, job_id, log)

    def _take_allocation(self, data: dict[str, Any]) -> None:
        self.allocation = data

    def _take_canary(self, data: dict[str, Any]) -> None:
        self.canary = printable(str(data.get("verdict", "")))

    def _read_records(self, spec: RunSpec) -> None:
        """Points and repeats, believed by the same rules as when a run is resumed."""
        try:
            landed = look_at_records(spec, self.run_dir)
        except OSError as error:
            self._warn(f"{error.filename}: cannot be read: {error.strerror}")
            return
        for problem in landed.problems.values():
            self._warn(problem)
        self.points = dict(sorted(landed.points.items()))
        self.repeats = dict(sorted(landed.repeats.items()))

    def _object(self, path: Path) -> dict[str, Any]:
        try:
            return read_object(path)
        except RecordError as error:
            self._warn(str(error))
            return {}

    def _warn(self, text: str) -> None:
        text = printable(text)
        if text not in self.warnings:
            self.warnings.append(text)


def read_facts(run_dir: RunDir, brief: bool = False) -> RunFacts:
    """The run now; whatever is wrong with its files is in `warnings`, never an exception."""
    facts = RunFacts(run_dir, timeline=Timeline(run_dir.events), brief=brief)
    if brief and (told := _told(run_dir)):
        facts.spec, facts.label = told, printable(told.name)[:60]
        facts.created = _created({"created": told.created}, run_dir)
        facts.refresh()
        return facts
    data = facts._object(run_dir.run_json)
    try:
        facts.spec = typed(RunSpec, data, str(run_dir.run_json)) if data else None
    except (RecordError, TypeError, ValueError) as error:
        facts._warn(str(error))
    facts.label = printable(str(data.get("name", "")))[:60]
    facts.config, facts.plan = _dict(data.get("config")), _dict(data.get("plan"))
    facts.provenance = _dict(data.get("provenance"))
    facts.labels = {
        printable(str(k)): printable(str(v)) for k, v in _dict(data.get("labels")).items()
    }
    facts.created = _created(data, run_dir)
    facts.refresh()
    return facts


def _told(run_dir: RunDir) -> Described | None:
    """run.json without what a brief look leaves out; None where it is to be looked at closely."""
    try:
        return read_typed(Described, run_dir.run_json)
    except RecordError:
        return None


def _created(data: dict[str, Any], run_dir: RunDir) -> float | None:
    try:
        return seconds(data["created"])
    except (KeyError, ValueError, OverflowError):
        return _last_change(run_dir.path)


def _last_change(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
