"""Points that were measured already: found by content, copied with their origin, never again run.

`python -m jobs.reuse` reads lines of JSON from standard input (the results directory and the
sweep's, then run.json documents to be, a line each) and answers with one JSON list. A point's
content is its deployment (jobs/deployment.py, versions included), its load and the launcher's
version; its place in a run and the seed that follows from it are no part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs.allocation import utc_now
from jobs.deployment import deployment_of, differences, record_of
from jobs.landed import Landed, look_at_records
from jobs.record_files import read_object, read_record
from jobs.records import BenchPoint, RecordError
from jobs.run_file import read_run
from jobs.run_spec import RunSpec
from jobs.store import RunDir, write_json

LOAD = (
    *("concurrency", "num_prompts", "warmup_requests", "isl", "osl", "range", "client"),
    *("prompts", "goodput", "sending", "repeat"),
)
PLACES = ("*/content.json", "*/*/content.json", "*/reused/*/content.json")
FINE_CANARY = ("passed", "skipped", "void")
FOLDER = "reused"


def content_of(document: Mapping[str, Any], seen: dict[Any, Any] | None = None) -> dict[str, Any]:
    """Hashes of a run.json document: deployment, every point by index, accuracy (or None)."""
    plan = document["plan"]
    served = _sha(_anywhere(deployment_of(dict(document), seen), document))
    version = (document.get("provenance") or {}).get("launcher_version")
    points = {
        str(point["index"]): _sha(
            [served, version, {key: point.get(key) for key in LOAD}, point["seed"] - point["index"]]
        )
        for point in plan["points"]
    }
    asked = plan.get("accuracy")
    return {
        "schema": 1,
        "deployment": served,
        "points": points,
        "accuracy": _sha([served, version, asked]) if asked else None,
    }


def _anywhere(deployment: Any, document: Mapping[str, Any]) -> Any:
    """The deployment without the place where this submission keeps its copy of our code."""
    code_dir = (document.get("snapshot") or {}).get("code_dir") or document.get("code_dir")
    if not code_dir:
        return deployment
    text = json.dumps(deployment, sort_keys=True)
    return json.loads(text.replace(json.dumps(code_dir)[1:-1], "{code}"))


def _sha(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Shelf:
    """Every run of the results directory that says what it measures."""

    def __init__(self, results: Path) -> None:
        self.points: dict[str, list[tuple[RunDir, int]]] = {}
        self.accuracy: dict[str, list[RunDir]] = {}
        for run_dir, content in _contents(results):
            for index, sha in content.get("points", {}).items():
                self.points.setdefault(sha, []).append((run_dir, int(index)))
            if content.get("accuracy"):
                self.accuracy.setdefault(content["accuracy"], []).append(run_dir)
        self._looked: dict[Path, tuple[RunSpec, Landed] | None] = {}

    def point(self, sha: str, document: Mapping[str, Any]) -> tuple[RunDir, int] | None:
        """The newest run with a whole, believed record of this content."""
        for run_dir, index in self.points.get(sha, ()):
            looked = self._look(run_dir, document)
            if looked and index in looked[1].points and _whole(run_dir, looked[0], index):
                return run_dir, index
        return None

    def repeats(self, sha: str, document: Mapping[str, Any]) -> RunDir | None:
        """The newest run with every repeat of this accuracy."""
        for run_dir in self.accuracy.get(sha, ()):
            looked = self._look(run_dir, document)
            plan = looked[0].plan.accuracy if looked else None
            if looked and plan and len(looked[1].repeats) == plan.repeats:
                return run_dir
        return None

    def _look(self, run_dir: RunDir, document: Mapping[str, Any]) -> tuple[RunSpec, Landed] | None:
        if run_dir.path not in self._looked:
            self._looked[run_dir.path] = _believed(run_dir, document)
        return self._looked[run_dir.path]


def _contents(results: Path) -> Iterator[tuple[RunDir, dict[str, Any]]]:
    """Newest first: folders begin with the time."""
    for pattern in PLACES:
        for path in sorted(results.glob(pattern), reverse=True):
            try:
                yield RunDir(path.parent), read_object(path)
            except RecordError:
                continue


def _believed(run_dir: RunDir, document: Mapping[str, Any]) -> tuple[RunSpec, Landed] | None:
    """A run's records; None where it never settled, or its nodes had other versions than these."""
    try:
        settled = record_of(run_dir)
        if settled is None or (run_dir.canary.exists() and not _fine(run_dir)):
            return None
        before, now = settled.get("deployment") or {}, deployment_of(dict(document))
        if list(differences(before.get("found"), now["found"], "found")):
            return None
        run = read_run(run_dir.run_json)
        return run, look_at_records(run, run_dir)
    except (RecordError, OSError):
        return None


def _fine(run_dir: RunDir) -> bool:
    return read_object(run_dir.canary).get("verdict") in FINE_CANARY


def _whole(run_dir: RunDir, run: RunSpec, index: int) -> bool:
    """Whether no request of the point failed."""
    point = next(point for point in run.plan.points if point.index == index)
    record = read_record(BenchPoint, run_dir.point(index, point.concurrency))
    return record.completed == record.num_prompts and record.failed == 0


def answer(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each document: its content, and where its points and accuracy were measured."""
    shelf = Shelf(Path(asked["results"])) if asked["search"] else None
    found: list[dict[str, Any]] = []
    seen: dict[Any, Any] = {}
    taken: dict[Path, set[int]] = {}
    for document in asked["documents"]:
        content = content_of(document, seen)
        points: dict[str, Any] = {}
        repeats = None
        for index, sha in content["points"].items() if shelf else ():
            origin = shelf.point(sha, document) if shelf else None
            if origin is not None:
                points[index] = _told(*origin)
                taken.setdefault(origin[0].path, set()).add(origin[1])
        if shelf and content["accuracy"]:
            repeats = shelf.repeats(content["accuracy"], document)
            if repeats is not None:
                taken.setdefault(repeats.path, set())
        accuracy = _told(repeats, None) if repeats else None
        found.append({"content": content, "points": points, "accuracy": accuracy})
    for path, indices in taken.items():
        keep(RunDir(path), indices, Path(asked["home"]) / FOLDER)
    return found


def _told(run_dir: RunDir, index: int | None) -> dict[str, Any]:
    return {"run": run_dir.path.name, "path": str(run_dir.path), "index": index}


def keep(origin: RunDir, indices: set[int], shelf: Path) -> None:
    """A copy of a run with these points only: what the tables need, and where it is from."""
    home = RunDir(shelf / origin.path.name)
    home.path.mkdir(mode=0o700, parents=True)
    names = ("run.json", "outcome.json", "canary.json", "deployment.json")
    for name in (*names, "allocation.json", "content.json"):
        if (origin.path / name).is_file():
            shutil.copy2(origin.path / name, home.path / name)
    home.points.mkdir(mode=0o700)
    run = read_run(origin.run_json)
    for point in run.plan.points:
        if point.index in indices:
            record = origin.point(point.index, point.concurrency)
            shutil.copy2(record, home.points / record.name)
    if run.plan.accuracy and origin.accuracy.is_dir():
        home.accuracy.mkdir(mode=0o700)
        for path in origin.accuracy.glob("*.json"):
            shutil.copy2(path, home.accuracy / path.name)
    before = origin.reused
    first = read_object(before).get("origin") if before.is_file() else str(origin.path)
    told = {"schema": 1, "origin": first, "points": sorted(indices), "copied_at": utc_now()}
    write_json(home.reused, told)


def main() -> int:
    """One question on standard input, one answer on standard output."""
    os.umask(0o077)
    asked = json.loads(sys.stdin.readline())
    json.dump(answer(asked | {"documents": map(json.loads, sys.stdin)}), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
