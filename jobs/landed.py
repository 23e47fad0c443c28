"""What a run has measured already, believed only when it can be nothing else than its record."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jobs.record_checks import check_point, check_repeat
from jobs.record_files import read_record
from jobs.records import AccuracyRepeat, BenchPoint, RecordError
from jobs.run_spec import Point, RunSpec
from jobs.store import RunDir

REJECTED = ".rejected"
RECORD = re.compile(r".*\.json")


@dataclass(slots=True)
class Landed:
    """Records of points (by index) and repeats (by number) that need not be measured again, and
    what is not believed."""

    points: dict[int, BenchPoint] = field(default_factory=dict)
    repeats: dict[int, AccuracyRepeat] = field(default_factory=dict)
    problems: dict[Path, str] = field(default_factory=dict)

    def missing(self, run: RunSpec) -> list[str]:
        """What is still to be measured, in words."""
        found = [point.name for point in run.plan.points if point.index not in self.points]
        repeats = run.plan.accuracy.repeats if run.plan.accuracy else 0
        left = [n for n in range(repeats) if n not in self.repeats]
        return found + [f"accuracy repeat {number + 1} of {repeats}" for number in left]


def look_at_records(run: RunSpec, run_dir: RunDir) -> Landed:
    """Every record in its place, read with suspicion; touches nothing."""
    landed = Landed()
    places: dict[Path, Callable[[], None]] = {}

    def add_point(point: Point, path: Path) -> None:
        record = read_record(BenchPoint, path)
        check_point(record, str(path))
        _same(path, "run_id", record.run_id, run.run_id)
        for name in ("index", "name", "concurrency", "num_prompts", "isl", "osl", "seed"):
            _same(path, name, getattr(record, name), getattr(point, name))
        landed.points[point.index] = record

    def add_repeat(number: int, path: Path) -> None:
        record = read_record(AccuracyRepeat, path)
        check_repeat(record, str(path))
        _same(path, "run_id", record.run_id, run.run_id)
        _same(path, "repeat", record.repeat, number)
        _all_answered(path, record)
        landed.repeats[number] = record

    for point in run.plan.points:
        path = run_dir.point(point.index, point.concurrency)
        places[path] = lambda point=point, path=path: add_point(point, path)  # type: ignore[misc]
    for number in range(run.plan.accuracy.repeats if run.plan.accuracy else 0):
        path = run_dir.repeat(number)
        places[path] = lambda number=number, path=path: add_repeat(number, path)  # type: ignore[misc]
    for path, add in places.items():
        if os.path.lexists(path):
            try:
                add()
            except RecordError as error:
                landed.problems[path] = str(error)
    for path in _strangers(run_dir, set(places)):
        landed.problems[path] = f"{path}: not a record of this run's plan, left alone"
    return landed


def set_aside(run: RunSpec, run_dir: RunDir, landed: Landed) -> None:
    """Files in a record's place that are not believed get another name, so that it is free."""
    mine = {run_dir.point(point.index, point.concurrency) for point in run.plan.points}
    if run.plan.accuracy:
        mine |= {run_dir.repeat(number) for number in range(run.plan.accuracy.repeats)}
    for path in mine & set(landed.problems):
        aside, number = path.with_name(path.name + REJECTED), 1
        while os.path.lexists(aside):
            number += 1
            aside = path.with_name(f"{path.name}{REJECTED}{number}")
        path.replace(aside)


def _same(path: Path, name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise RecordError(f"{path}: {name} is {found!r:.80}, this run's is {wanted!r:.80}")


def _all_answered(path: Path, record: AccuracyRepeat) -> None:
    if record.transport_failures:
        raise RecordError(
            f"{path}: {record.transport_failures} of {record.questions} questions never got an "
            "answer: this repeat is asked again"
        )


def _strangers(run_dir: RunDir, known: set[Path]) -> list[Path]:
    """JSON files in the records' folders that no plan asked for."""
    found: list[Path] = []
    for folder in (run_dir.points, run_dir.accuracy):
        if folder.is_dir():
            found += sorted(path for path in folder.iterdir() if RECORD.fullmatch(path.name))
    return [path for path in found if path not in known and not path.name.startswith(".")]
