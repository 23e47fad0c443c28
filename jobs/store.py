"""The run directory: the one owner of its file names, and of how files get there.

Files are written aside and renamed, so that a reader never sees half a file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jobs.targets import check_target

RESERVE_BYTES = 64 * 1024


class RunDir:
    """Names inside one run directory. Creating the object touches nothing."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def run_json(self) -> Path:
        """Config, plan and provenance, written by the launcher before submission."""
        return self.path / "run.json"

    @property
    def content(self) -> Path:
        """Content hashes of a sweep's run: deployment, points, accuracy; by the launcher."""
        return self.path / "content.json"

    @property
    def reused(self) -> Path:
        """In a copy that a sweep keeps of an earlier run: where from, and which points."""
        return self.path / "reused.json"

    @property
    def submission(self) -> Path:
        """Job id and executor, written by the launcher after the scheduler accepted the job."""
        return self.path / "submission.json"

    @property
    def submitting(self) -> Path:
        """Locked by the launcher while it hands the run over; submission.json comes after."""
        return self.path / "submitting.lock"

    @property
    def allocation(self) -> Path:
        """Nodes, addresses and job id, written by the job once it runs."""
        return self.path / "allocation.json"

    @property
    def outcome(self) -> Path:
        """How it ended; absent while the run lives."""
        return self.path / "outcome.json"

    @property
    def reserve(self) -> Path:
        """Space kept for the last record, in case the disk fills up."""
        return self.path / ".reserve"

    @property
    def attempts(self) -> Path:
        """One record per driver that worked on the run, and the outcomes of earlier ones."""
        return self.path / "attempts"

    def attempt(self, number: int) -> Path:
        """The record of one attempt, counted from 1."""
        return self.attempts / f"{number}.json"

    @property
    def deployment(self) -> Path:
        """What the first attempt served with, and its content hash."""
        return self.path / "deployment.json"

    @property
    def lock(self) -> Path:
        """Held by the driver that works on this run."""
        return self.path / "driver.lock"

    @property
    def events(self) -> Path:
        """What happened when, one JSON object a line."""
        return self.path / "events.jsonl"

    @property
    def canary(self) -> Path:
        """What the transfer canary saw, pair by pair and prompt by prompt."""
        return self.path / "canary.json"

    @property
    def api_key(self) -> Path:
        """The run's own API key, mode 0600."""
        return self.path / "api_key"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.path / "logs"

    @property
    def points(self) -> Path:
        """One record per benchmark point, and raw/ with what the client itself wrote."""
        return self.path / "points"

    @property
    def raw(self) -> Path:
        """The clients' own result files."""
        return self.points / "raw"

    @property
    def series(self) -> Path:
        """What was sampled of every process while the run measured (jobs/series_files.py)."""
        return self.path / "series"

    @property
    def series_parquet(self) -> Path:
        """The same in one tidy file, written when a long run is over."""
        return self.path / "series.parquet"

    @property
    def requests(self) -> Path:
        """The native client's records of single requests, one Parquet file a point."""
        return self.path / "requests"

    @property
    def gates(self) -> Path:
        """ready and go files by which prepared clients are held and released."""
        return self.path / "gates"

    @property
    def accuracy(self) -> Path:
        """One record per accuracy repeat."""
        return self.path / "accuracy"

    @property
    def preflight(self) -> Path:
        """Files by which driver and nodes see that they share the run directory."""
        return self.path / "preflight"

    @property
    def preflight_record(self) -> Path:
        """What every node had and lacked, and how long looking took."""
        return self.path / "preflight.json"

    def progress(self, name: str) -> Path:
        """How far a point's client, or `accuracy`, is (jobs/progress.py)."""
        return self.gates / f"{name}.progress"

    def log(self, step: str) -> Path:
        """The log of one step."""
        return self.logs / f"{step}.log"

    def point(self, index: int, concurrency: int) -> Path:
        """The record of one point."""
        return self.points / self.point_name(index, concurrency)

    @staticmethod
    def point_name(index: int, concurrency: int) -> str:
        """The name of one point's record in its folder."""
        return f"{index}-c{concurrency}.json"

    def repeat(self, repeat: int) -> Path:
        """The record of one accuracy repeat."""
        return self.accuracy / self.repeat_name(repeat)

    @staticmethod
    def repeat_name(repeat: int) -> str:
        """The name of one accuracy repeat's record in its folder."""
        return f"{repeat}.json"

    def make_folders(self) -> None:
        """The folders a job writes into, private to the user."""
        folders = (self.logs, self.points, self.raw, self.gates, self.accuracy, self.preflight)
        for folder in (*folders, self.series, self.requests):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.reserve.write_bytes(b"\0" * RESERVE_BYTES)


def write_text(path: Path, text: str, mode: int = 0o600) -> None:
    """`text` at `path`, whole or not at all."""
    check_target(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the new name survives a power loss as well
    finally:
        os.close(folder)


def write_json(path: Path, data: Any) -> None:
    """`data` as JSON at `path`, whole or not at all."""
    write_text(path, json.dumps(data, indent=1, sort_keys=False) + "\n")


def write_last(run_dir: RunDir, path: Path, data: Any) -> None:
    """As `write_json`, on a full disk too: the space kept for it is given back first."""
    run_dir.reserve.unlink(missing_ok=True)
    write_json(path, data)


def append_event(path: Path, event: dict[str, Any]) -> None:
    """One line at the end of events.jsonl (short single writes, so lines stay whole)."""
    line = json.dumps(event, sort_keys=False) + "\n"
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line)
