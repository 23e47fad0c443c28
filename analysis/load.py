"""Run directories in, one tidy frame of facts out (a row is a point, a column is one fact).

A file that is broken, or that belongs to another run, costs one warning and its own row.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from analysis.errors import AnalysisError, BrokenFileError
from analysis.foreign import read_foreign
from analysis.foreign_rows import Row
from analysis.foreign_told import NAME as TOLD
from analysis.one_run import OneRun, read_run
from analysis.run import Run
from analysis.safetext import printable
from jobs.record_files import read_object
from jobs.store import RunDir

SEARCH_DEPTH = 2
ALONE = 200
"""Up to so many run directories are read by this process alone: sooner than others have begun."""
AT_ONCE = 50
MOST_READERS = 4


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
    found = each_once(folders, loaded)
    for folder, told in zip(found, _read_all(found), strict=True):
        run = told.run
        if run is not None and run.run_id in names:
            loaded.warnings.append(
                f"{folder}: left out, run {run.run_id!r} is in {names[run.run_id]} already"
            )
            continue
        loaded.warnings += told.warnings
        loaded.lost_records += told.lost_records
        if run is not None:
            names[run.run_id] = folder
            loaded.runs.append(run)
    share_accuracy(loaded.runs)
    for path in files:
        _add_foreign(path, loaded)
    for path in folders:
        _tell_refused(path, loaded)
    return loaded


def _read_all(folders: Sequence[Path]) -> Iterator[OneRun]:
    """What each directory holds, in order; many are read by several processes.

    They are forked, so that they have begun at once, and end with this function. What one that was
    killed left is read here.
    """
    readers = min(MOST_READERS, len(os.sched_getaffinity(0)))
    if len(folders) <= ALONE or readers < 2:
        yield from map(read_run, folders)
        return
    done = 0
    with ProcessPoolExecutor(readers, get_context("fork"), initializer=_leave_ctrl_c) as pool:
        try:
            for told in pool.map(read_run, folders, chunksize=AT_ONCE):
                yield told
                done += 1
        except BrokenProcessPool:
            yield from map(read_run, folders[done:])


def _leave_ctrl_c() -> None:
    """Ctrl-C reaches all processes of a command; the first one alone speaks of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
