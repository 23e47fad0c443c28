"""What a run has measured already, believed only when it can be nothing else than its record."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jobs.record_checks import check_point, check_repeat
from jobs.record_files import read_record
from jobs.records import AccuracyRepeat, BenchPoint, RecordError
from jobs.run_spec import Point, RunSpec
from jobs.store import RunDir

REJECTED = ".rejected"
P = TypeVar("P")

RECORD = re.compile(r"(?!\.).*\.json")


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
    points = {run_dir.point_name(p.index, p.concurrency): p for p in run.plan.points}
    asked = run.plan.accuracy.repeats if run.plan.accuracy else 0
    repeats = {run_dir.repeat_name(number): number for number in range(asked)}

    def add_point(path: str, point: Point) -> None:
        _add_point(landed, point, path, run.run_id)

    def add_repeat(path: str, number: int) -> None:
        _add_repeat(landed, number, path, run.run_id)

    strangers = _take(run_dir.points, points, add_point, landed.problems)
    strangers += _take(run_dir.accuracy, repeats, add_repeat, landed.problems)
    for path in strangers:
        landed.problems[Path(path)] = f"{path}: not a record of this run's plan, left alone"
    return landed


def _take(
    folder: Path, planned: Mapping[str, P], add: Callable[[str, P], None], problems: dict[Path, str]
) -> list[str]:
    """Adds the folder's planned records; JSON files that no plan asked for come back."""
    try:
        there = {entry.name for entry in os.scandir(folder)}
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name, one in planned.items():
        if name in there:
            path = f"{folder}/{name}"
            try:
                add(path, one)
            except RecordError as error:
                problems[Path(path)] = str(error)
    others = sorted(there - set(planned))
    return [f"{folder}/{name}" for name in others if RECORD.fullmatch(name)]


def _add_point(landed: Landed, point: Point, path: str, run_id: str) -> None:
    record = read_record(BenchPoint, path)
    check_point(record, path)
    _same(path, "run_id", record.run_id, run_id)
    for name in ("index", "name", "concurrency", "num_prompts", "isl", "osl", "seed"):
        _same(path, name, getattr(record, name), getattr(point, name))
    landed.points[point.index] = record


def _add_repeat(landed: Landed, number: int, path: str, run_id: str) -> None:
    record = read_record(AccuracyRepeat, path)
    check_repeat(record, path)
    _same(path, "run_id", record.run_id, run_id)
    _same(path, "repeat", record.repeat, number)
    _all_answered(path, record)
    landed.repeats[number] = record


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


def _same(path: str, name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise RecordError(f"{path}: {name} is {found!r:.80}, this run's is {wanted!r:.80}")


def _all_answered(path: str, record: AccuracyRepeat) -> None:
    if record.transport_failures:
        raise RecordError(
            f"{path}: {record.transport_failures} of {record.questions} questions never got an "
            "answer: this repeat is asked again"
        )
