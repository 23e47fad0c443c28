"""One run directory read: its records believed or left out, each with its reason."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from analysis.errors import BrokenFileError
from analysis.nodes import node_doubts
from analysis.run import Run, RunJson, parse_run
from jobs.record_checks import check_point, check_repeat
from jobs.record_files import read_object, read_record
from jobs.records import AccuracyRepeat, BenchPoint, Outcome
from jobs.store import RunDir

POINT_NAME = re.compile(r"(\d{1,6})-c(\d{1,9})\.json")
REPEAT_NAME = re.compile(r"(\d{1,6})\.json")
CANARY_VERDICTS = ("passed", "void", "skipped", "failed")

Add = Callable[[Path, tuple[int, ...]], None]


@dataclass
class OneRun:
    """What a directory holds: no run where its run.json cannot be used."""

    run: Run | None = None
    warnings: list[str] = field(default_factory=list)
    lost_records: int = 0

    def lose(self, error: BrokenFileError) -> None:
        """Note a record that cannot be used."""
        self.warnings.append(str(error))
        self.lost_records += 1


def read_run(folder: Path) -> OneRun:
    """Everything the table needs of a run directory."""
    told = OneRun()
    try:
        told.run = parse_run(folder, read_object(RunDir(folder).run_json, RunJson))
    except BrokenFileError as error:
        told.lose(error)
    else:
        _fill(told.run, told)
    return told


def _fill(run: Run, told: OneRun) -> None:
    """Points, repeats and outcome read into `run`."""
    store = RunDir(run.path)
    try:
        held = _names(run.path)
    except OSError as error:
        told.lose(BrokenFileError(f"{run.path}: cannot be listed: {error.strerror}"))
        return
    readers: tuple[tuple[Path, Callable[[Run, Path], None]], ...] = (
        (store.content, _add_deployment),
        (store.reused, _add_origin),
        (store.outcome, _add_outcome),
        (store.preflight_record, _add_node_doubts),
        (store.canary, _add_canary),
    )
    for file, add in readers:
        if file.name in held:
            try:
                add(run, file)
            except BrokenFileError as error:
                told.lose(error)
    _read_folder(store.points, POINT_NAME, partial(_add_point, run), told)
    _read_folder(store.accuracy, REPEAT_NAME, partial(_add_repeat, run), told)
    run.points.sort(key=lambda point: point.index)
    run.repeats.sort(key=lambda repeat: repeat.repeat)


def _add_deployment(run: Run, file: Path) -> None:
    """The deployment's hash."""
    sha = read_object(file).get("deployment")
    run.deployment = sha if isinstance(sha, str) else None


def _add_origin(run: Run, file: Path) -> None:
    """Of a copied run its origin; only the points that were taken are planned."""
    told = read_object(file)
    indices = told.get("points")
    run.origin = str(told.get("origin"))
    taken = set(indices) if isinstance(indices, list) else set()
    run.planned = {pair for pair in run.planned if pair[0] in taken}


def _names(folder: Path) -> set[str]:
    with os.scandir(folder) as found:
        return {each.name for each in found}


def _read_folder(folder: Path, pattern: re.Pattern[str], add: Add, told: OneRun) -> None:
    """Every record of a folder, told by its name; other JSON files cost a warning."""
    try:
        names = sorted(_names(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        told.lose(BrokenFileError(f"{folder}: cannot be read: {error.strerror}"))
        return
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            try:
                add(folder / name, tuple(int(number) for number in match.groups()))
            except BrokenFileError as error:
                told.lose(error)
        elif name.endswith(".json") and not name.startswith("."):
            told.warnings.append(f"{folder / name}: not one of the run's records, ignored")


def _add_point(run: Run, file: Path, numbers: tuple[int, ...]) -> None:
    point = read_record(BenchPoint, file)
    _check_owner(run, point.run_id, file)
    if (point.index, point.concurrency) != numbers:
        raise BrokenFileError(f"{file}: holds point {point.index}-c{point.concurrency}")
    if run.planned and numbers not in run.planned:
        raise BrokenFileError(f"{file}: the run's plan has no such point")
    check_point(point, str(file))
    run.points.append(point)


def _add_repeat(run: Run, file: Path, numbers: tuple[int, ...]) -> None:
    repeat = read_record(AccuracyRepeat, file)
    _check_owner(run, repeat.run_id, file)
    if (repeat.repeat,) != numbers:
        raise BrokenFileError(f"{file}: holds repeat {repeat.repeat}")
    if run.accuracy_plan and repeat.dataset != run.accuracy_plan.dataset:
        raise BrokenFileError(f"{file}: dataset {repeat.dataset!r} is not the planned one")
    check_repeat(repeat, str(file))
    run.repeats.append(repeat)


def _add_outcome(run: Run, file: Path) -> None:
    outcome = read_record(Outcome, file)
    _check_owner(run, outcome.run_id, file)
    run.outcome = outcome


def _add_canary(run: Run, file: Path) -> None:
    verdict = read_object(file).get("verdict")
    if verdict not in CANARY_VERDICTS:
        raise BrokenFileError(f"{file}: verdict {verdict!r:.80} is none of {CANARY_VERDICTS}")
    run.canary = str(verdict)


def _add_node_doubts(run: Run, file: Path) -> None:
    run.node_doubts = node_doubts(file)


def _check_owner(run: Run, run_id: str, file: Path) -> None:
    if run_id != run.run_id:
        raise BrokenFileError(f"{file}: belongs to run {run_id!r:.80}, not to {run.run_id!r:.80}")
