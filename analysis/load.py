"""Run directories in, one tidy frame of facts out (a row is a point, a column is one fact).

A file that is broken, or that belongs to another run, costs one warning and its own row.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from analysis.errors import AnalysisError, BrokenFileError
from analysis.foreign import read_foreign
from analysis.foreign_rows import Row
from analysis.foreign_told import NAME as TOLD
from analysis.nodes import node_doubts
from analysis.run import Run, RunJson, parse_run
from analysis.safetext import printable
from jobs.record_checks import check_point, check_repeat
from jobs.record_files import read_object, read_record
from jobs.records import AccuracyRepeat, BenchPoint, Outcome
from jobs.store import RunDir

POINT_NAME = re.compile(r"(\d{1,6})-c(\d{1,9})\.json")
REPEAT_NAME = re.compile(r"(\d{1,6})\.json")
SEARCH_DEPTH = 2
CANARY_VERDICTS = ("passed", "void", "skipped", "failed")

Add = Callable[[Path, tuple[int, ...]], None]


@dataclass
class Loaded:
    """Every run found, what had to be left out, and how many of those were records of ours."""

    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lost_records: int = 0
    rows: list[Row] = field(default_factory=list)
    """Aggregates of other tools, as facts under the columns' names."""

    def only(self, run_ids: set[str]) -> Loaded:
        """The runs of those ids alone, and all warnings."""
        kept = [run for run in self.runs if printable(run.run_id) in run_ids]
        rows = [row for row in self.rows if printable(row["run"]) in run_ids]
        return replace(self, runs=kept, rows=rows)

    def lose(self, error: BrokenFileError) -> None:
        """Note a record that cannot be used."""
        self.warnings.append(str(error))
        self.lost_records += 1


def load(paths: Sequence[Path]) -> Loaded:
    """The runs in `paths`, each one once. AnalysisError for a path that holds no run."""
    with _collection_paused():
        return _load(paths)


@contextlib.contextmanager
def _collection_paused() -> Iterator[None]:
    """No garbage collection meanwhile: records only pile up, and looking through them again and
    again took an eighth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _load(paths: Sequence[Path]) -> Loaded:
    loaded = Loaded()
    names: dict[str, Path] = {}
    files = [path for path in paths if _is_file(path)]
    folders = [path for path in paths if path not in files]
    for folder in each_once(folders, loaded):
        try:
            run = parse_run(folder, read_object(RunDir(folder).run_json, RunJson))
        except BrokenFileError as error:
            loaded.lose(error)
            continue
        if run.run_id in names:
            loaded.warnings.append(
                f"{folder}: left out, run {run.run_id!r} is in {names[run.run_id]} already"
            )
            continue
        names[run.run_id] = folder
        _fill(run, loaded)
        loaded.runs.append(run)
    share_accuracy(loaded.runs)
    for path in files:
        _add_foreign(path, loaded)
    for path in folders:
        _tell_refused(path, loaded)
    return loaded


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from error


def _add_foreign(path: Path, loaded: Loaded) -> None:
    """Another tool's result; what of it cannot be used costs a warning."""
    if path.name == TOLD:  # What is told of the others; a pattern such as *.json names it too.
        return
    found = read_foreign(path)
    if found.run is not None:
        loaded.runs.append(found.run)
    loaded.rows += found.rows
    for warning in found.warnings:
        loaded.lose(BrokenFileError(warning))


def _tell_refused(path: Path, loaded: Loaded) -> None:
    """Jobs of a sweep that were never submitted have no directory: its sweep.json names them."""
    record = path / "sweep.json"
    if not record.exists():
        return
    try:
        runs = read_object(record).get("runs")
    except BrokenFileError as error:
        loaded.lose(error)
        return
    for run in runs if isinstance(runs, list) else []:
        if isinstance(run, dict) and run.get("error"):
            first = str(run["error"]).splitlines()[0]
            loaded.lose(BrokenFileError(f"{path}: {run.get('name')} was not submitted: {first}"))


def share_accuracy(runs: Sequence[Run]) -> None:
    """One deployment is asked once: a sweep's runs without questions take the answers of another
    run of the very same deployment (content.json)."""
    asked = {run.deployment: run for run in runs if run.deployment and run.repeats}
    for run in runs:
        other = asked.get(run.deployment) if run.deployment else None
        if other is not None and run.accuracy_plan is None and not run.repeats:
            run.accuracy_plan, run.accuracy_from = other.accuracy_plan, other.run_id
            run.repeats = list(other.repeats)


def each_once(paths: Sequence[Path], loaded: Loaded) -> list[Path]:
    """Every run directory in `paths`, the first way it was named (links count as their target)."""
    folders = [folder for path in paths for folder in find_runs(path, loaded)]
    return list({_identity(folder): folder for folder in reversed(folders)}.values())[::-1]


def _identity(folder: Path) -> object:
    """What is the same for two ways to name one folder."""
    try:
        status = folder.stat()
    except OSError:
        return folder
    return status.st_dev, status.st_ino


def find_runs(path: Path, loaded: Loaded) -> list[Path]:
    """`path` if it is a run directory, else those in it or in its sub-folders, by name."""
    try:
        if not path.exists():
            raise AnalysisError(f"{path}: no such run directory")
        if not path.is_dir():
            what = "a file" if path.is_file() else "no regular file"
            raise AnalysisError(f"{path}: is {what}; give the run directory that holds it")
        found = list(_walk(path, SEARCH_DEPTH, loaded))
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from error
    if not found:
        raise AnalysisError(
            f"{path}: no run here: neither it nor a folder in it (two levels) has a run.json"
        )
    return found


def _walk(folder: Path, depth: int, loaded: Loaded) -> Iterator[Path]:
    """Run directories, told by a run.json of any kind: a link that leads nowhere is one as well."""
    store = RunDir(folder)
    if os.path.lexists(store.run_json):
        yield folder
    elif store.points.is_dir():
        loaded.lose(BrokenFileError(f"{folder}: no run.json, its records are left out"))
    elif depth:
        for child in sorted(folder.iterdir()):
            try:
                if child.is_dir() and not child.name.startswith("."):
                    yield from _walk(child, depth - 1, loaded)
            except OSError as error:
                loaded.lose(BrokenFileError(f"{child}: left out, cannot be read: {error.strerror}"))


def _fill(run: Run, loaded: Loaded) -> None:
    """Points, repeats and outcome read into `run`."""
    store = RunDir(run.path)
    try:
        held = _names(run.path)
    except OSError as error:
        loaded.lose(BrokenFileError(f"{run.path}: cannot be listed: {error.strerror}"))
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
                loaded.lose(error)
    _read_folder(store.points, POINT_NAME, partial(_add_point, run), loaded)
    _read_folder(store.accuracy, REPEAT_NAME, partial(_add_repeat, run), loaded)
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


def _read_folder(folder: Path, pattern: re.Pattern[str], add: Add, loaded: Loaded) -> None:
    """Every record of a folder, told by its name; other JSON files cost a warning."""
    try:
        names = sorted(_names(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        loaded.lose(BrokenFileError(f"{folder}: cannot be read: {error.strerror}"))
        return
    for name in names:
        match = pattern.fullmatch(name)
        if match:
            try:
                add(folder / name, tuple(int(number) for number in match.groups()))
            except BrokenFileError as error:
                loaded.lose(error)
        elif name.endswith(".json") and not name.startswith("."):
            loaded.warnings.append(f"{folder / name}: not one of the run's records, ignored")


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
