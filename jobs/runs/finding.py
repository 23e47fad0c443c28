"""From what people type to run directories: a path, a name or its beginning, a job's id."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.plain_files import open_plain
from jobs.plain_text import printable
from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.store import RunDir

SEARCH_DEPTH = 2
"""A results directory holds runs, and sweeps that hold runs."""

NAME = re.compile(r"\d{8}-\d{6}-(?P<label>.+)-(?P<end>[0-9a-f]{6,})")
"""How the launcher names a run directory: time, label, random end."""


class NoSuchRunError(ValueError):
    """What was typed names no run, or more than one; the text says what would.

    Names of files and what was typed are made harmless; `rows` stand below the text.
    """

    def __init__(self, text: str, rows: Sequence[str] = ()) -> None:
        self.text, self.rows = text, tuple(rows)
        super().__init__("\n  ".join(printable(line) for line in (text, *rows)))


SWEEP_FILE = "sweep.json"
SWEEP_LOCK = "sweep.lock"
"""Held by the launcher that still has runs of the sweep to start."""
SWEEP_CANCELLED = "cancelled.json"
"""Written by `cancel --sweep` while a launcher holds that lock: it starts no further runs."""
NOT_RUNS = ("code", "reused")
"""Folders of a sweep that hold no runs of its own: its code, copies of earlier runs' records."""


@dataclass(slots=True)
class Found:
    """Run directories in the order of their names, and what was left out on the way."""

    runs: list[RunDir] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def short_name(run_dir: RunDir) -> str:
    """The random end of a run's name, which is a name for it too; else the whole name."""
    match = NAME.fullmatch(run_dir.path.name)
    return match["end"] if match else run_dir.path.name


def sweep_of(run_dir: RunDir) -> Path | None:
    """The sweep's directory that a run lies in; None for a run of its own."""
    home = run_dir.path.parent
    return home if (home / SWEEP_FILE).is_file() else None


def has_runs_to_come(home: Path) -> bool:
    """Whether a launcher still starts runs of the sweep in `home`."""
    try:
        with open_plain(home / SWEEP_LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def find_sweep(word: str, results: Path) -> Path | None:
    """The sweep's directory that a word names: a path, a name or its beginning, its random end."""
    path = _path(word)
    if os.sep in word or path.is_dir():
        return path if _is_there(path / SWEEP_FILE) else None
    homes = sorted(file.parent for file in results.glob(f"*/{SWEEP_FILE}"))
    ends = [(home, home.name.rsplit("-", 1)[-1]) for home in homes]
    exact = [home for home, end in ends if word in (home.name, end)]
    begins = [home for home, end in ends if home.name.startswith(word) or end.startswith(word)]
    found = exact or begins
    return found[0] if len(found) == 1 else None


def _path(word: str) -> Path:
    """What was typed as a path; an empty word (of an unset variable) is not this folder."""
    if not word.strip():
        raise NoSuchRunError("an empty name names no run; for all runs of this folder say .")
    try:
        return Path(word).expanduser()
    except RuntimeError as error:
        raise NoSuchRunError(f"{word}: no such user") from error


def find(words: Sequence[str], results: Path) -> Found:
    """The runs that `words` name, each once; without words all of mine in `results`."""
    if not words:
        return all_mine(results)
    found = Found()
    for word in words:
        found.runs += _named(word, results, found.warnings)
    found.runs = list({run.path.resolve(): run for run in found.runs}.values())
    return found


def find_one(word: str, results: Path) -> RunDir:
    """The one run that `word` names; NoSuchRunError for a directory of several."""
    runs = _named(word, results, [])
    if len(runs) > 1:
        raise NoSuchRunError(f"{word} holds {len(runs)} runs: name one of them:", _some(runs))
    return runs[0]


def all_mine(results: Path) -> Found:
    """Every run in `results` whose directory belongs to this user."""
    if not results.is_dir():
        raise NoSuchRunError(
            f"{results}: no such results directory; name runs, or say --results DIR "
            "(cluster.results_dir of the runs, ./runs unless it was set)"
        )
    found = Found()
    others = 0
    for run in _runs_in(results, found.warnings):
        try:
            mine = run.path.stat().st_uid == os.getuid()
        except OSError:
            continue
        if mine:
            found.runs.append(run)
        else:
            others += 1
    if others:
        found.warnings.append(f"{results}: {others} runs of other users are left out")
    return found


def _named(word: str, results: Path, warnings: list[str]) -> list[RunDir]:
    """The run, or the runs of a directory, that one word names."""
    path = _path(word)
    if os.sep in word or path.is_dir():
        if not path.exists():
            raise NoSuchRunError(f"{word}: no such directory")
        if not path.is_dir():
            raise NoSuchRunError(f"{word}: is a file; give the run directory that holds it")
        unreadable: list[str] = []
        runs = list(_runs_in(path, unreadable))
        if not runs and unreadable:
            raise NoSuchRunError(f"{word}: no run that can be read:", unreadable)
        warnings += unreadable
        if not runs:
            raise NoSuchRunError(
                f"{word}: no run here: neither it nor a folder in it (two levels) has a run.json"
            )
        return runs
    known = list(_runs_in(results, warnings)) if results.is_dir() else []
    exact = [run for run in known if word in (run.path.name, short_name(run))]
    begins = [r for r in known if r.path.name.startswith(word) or short_name(r).startswith(word)]
    by_id = [run for run in known if word.isdecimal() and _job_id(run) == word]
    home = None if exact or by_id else find_sweep(word, results)
    if home is not None and (not begins or begins == _inside(home, begins)):
        return list(_runs_in(home, warnings))
    runs = exact or by_id or begins
    if not runs:
        there = f"{len(known)} runs there" if results.is_dir() else "no such directory"
        raise NoSuchRunError(
            f"{word}: no run of this name or job id in {results} ({there}); "
            "give a path, or --results DIR"
        )
    if len(runs) > 1:
        raise NoSuchRunError(f"{word}: {len(runs)} runs are called so:", _some(runs))
    return runs


def _inside(home: Path, runs: Sequence[RunDir]) -> list[RunDir]:
    return [run for run in runs if run.path.parent == home]


def _some(runs: Sequence[RunDir]) -> list[str]:
    names = [run.path.name for run in runs[:8]]
    return names + ["..."] * (len(runs) > len(names))


def _job_id(run: RunDir) -> str | None:
    try:
        return str(read_object(run.submission).get("job_id"))
    except RecordError:
        return None


def _is_there(path: Path) -> bool:
    """Also a link that leads nowhere: a run whose run.json is broken is told, not left out."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _runs_in(folder: Path, warnings: list[str], depth: int = SEARCH_DEPTH) -> Iterator[RunDir]:
    """The folder itself if it is a run, else those below it, by name; unreadable ones warned of."""
    run = RunDir(folder)
    try:
        if _is_there(run.run_json):
            yield run
            return
        children = sorted(folder.iterdir()) if depth else []
        sweep = folder / SWEEP_FILE in children
    except OSError as error:
        warnings.append(printable(f"{folder}: left out, cannot be read: {error.strerror}"))
        return
    for child in children:
        try:
            if child.name.startswith(".") or (sweep and child.name in NOT_RUNS):
                continue
            if child.is_dir():
                yield from _runs_in(child, warnings, depth - 1)
        except OSError as error:
            warnings.append(printable(f"{child}: left out, cannot be read: {error.strerror}"))
