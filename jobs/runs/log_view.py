"""`logs RUN`: the steps' logs as one, in the order of their times, each line with its step."""

from __future__ import annotations

import datetime
import fnmatch
import heapq
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from jobs.plain_files import open_plain
from jobs.plain_text import printable
from jobs.runs.facts import RunFacts
from jobs.runs.log_lines import Line, LogFile

POLL_S = 0.5
LAST_LINES = 200
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class LogRequestError(ValueError):
    """What was asked for cannot be: the text says what can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines: of which steps, matching what, from when on, how many from the end (None: all),
    and of which earlier attempt (None: the present one)."""

    workers: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    since: float | None = None
    last: int | None = LAST_LINES
    attempt: int | None = None

    def step(self, name: str, role: str) -> bool:
        """Whether a step's log is asked for: by its name, a beginning with *, or its role."""
        asked = [(name, word) for word in self.workers] + [(role, word) for word in self.workers]
        return not asked or any(fnmatch.fnmatchcase(known, word) for known, word in asked)

    def text(self, text: str) -> bool:
        """Whether a line is asked for."""
        return self.pattern is None or self.pattern.search(text) is not None


def since_of(text: str, now: float) -> float:
    """`10m`, `90s`, `2h`, `1d` ago, or a time as 2026-11-29T20:31 (local without a zone)."""
    if match := re.fullmatch(r"(\d{1,7}(?:\.\d+)?)([smhd])", text.strip()):
        return now - float(match[1]) * UNITS[match[2]]
    try:
        return datetime.datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise LogRequestError(
            f"--since {text}: neither a length (90s, 10m, 2h, 1d) nor a time (2026-11-29T20:31:00)"
        ) from None


@dataclass(slots=True)
class RunLogs:
    """All logs of a run that are asked for, those that appear later too."""

    facts: RunFacts
    wanted: Wanted
    files: dict[Path, LogFile] = field(default_factory=dict)

    def find(self) -> list[LogFile]:
        """Looks for logs; those that were not known yet."""
        new = []
        for name, path in self._paths():
            if path in self.files:
                continue
            story = self.facts.timeline.steps.get(name)
            role = story.role if story else ""
            if self.wanted.step(name, role):
                begun = (story.started_at if story else None) or self.facts.created or 0.0
                self.files[path] = LogFile(name, path, begun)
                new.append(self.files[path])
        return new

    def _paths(self) -> Iterator[tuple[str, Path]]:
        driver = self.facts.submission.log
        if driver is not None and self.wanted.attempt is None:
            yield "driver", driver
            yield "driver", driver.with_suffix(".err")
        folder = self.facts.run_dir.logs
        if self.wanted.attempt is not None:
            folder = folder / f"attempt{self.wanted.attempt}"
        try:
            found = sorted(folder.iterdir()) if folder.is_dir() else []
        except OSError:
            return
        for path in found:
            if path.suffix == ".log" and not path.name.startswith("."):
                yield printable(path.stem), path

    def names(self) -> list[str]:
        """Steps that have a log."""
        return sorted({name for name, _ in self._paths()})

    def so_far(self, follow: bool) -> Iterator[Line]:
        """The lines that are there now, merged by time; in bounded memory whatever their size."""
        for file in self.find():
            if self.wanted.since is not None:
                file.skip_to(self.wanted.since)
            elif self.wanted.last is not None:
                wanted = self.wanted.text if self.wanted.pattern else None
                file.skip_to_tail(self.wanted.last, wanted)
        streams = [f.new_lines() if follow else f.lines() for f in self.files.values()]
        merged = self._chosen(heapq.merge(*streams, key=lambda line: line.at))
        return merged if self.wanted.last is None else iter(deque(merged, self.wanted.last))

    def new(self) -> list[Line]:
        """What came since the last look: whole lines, by time where they carry one."""
        self.find()
        lines = [line for file in self.files.values() for line in file.new_lines()]
        return sorted(self._chosen(lines), key=lambda line: line.at)

    def _chosen(self, lines: Iterable[Line]) -> Iterator[Line]:
        since = self.wanted.since
        for line in lines:
            if (since is None or line.at >= since) and self.wanted.text(line.text):
                yield line


@dataclass(slots=True)
class Printer:
    """Writes lines with their step in front; colours only for a terminal; the key blotted out."""

    out: TextIO
    colours: bool
    width: int = 0
    secret: str = ""
    _chosen: dict[str, int] = field(default_factory=dict)

    def write(self, line: Line) -> None:
        """One line."""
        text = line.text.replace(self.secret, "***") if self.secret else line.text
        name = line.source.ljust(self.width)
        if self.colours:
            place = self._chosen.setdefault(line.source, len(self._chosen))
            name = f"\x1b[{COLOURS[place % len(COLOURS)]}m{name}\x1b[0m"
        self.out.write(f"{name} | {text}\n")


def printer_for(logs: RunLogs, out: TextIO, colours: bool) -> Printer:
    """A printer wide enough for the names there are."""
    try:
        with open_plain(logs.facts.run_dir.api_key) as stream:
            secret = stream.read(4096).decode().strip()
    except (OSError, ValueError):
        secret = ""
    width = max((len(name) for name in logs.names()), default=0)
    return Printer(out, colours, min(width, 24), secret if len(secret) >= 8 else "")


def follow_lines(
    logs: RunLogs,
    printer: Printer,
    over: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """New lines as they come, until the run is over and nothing came since."""
    last_round = False
    while True:
        logs.facts.refresh()
        lines = logs.new()
        for line in lines:
            printer.write(line)
        printer.out.flush()
        if last_round and not lines:
            return
        last_round = over()
        sleep(POLL_S)


def pattern_of(text: str, ignore_case: bool) -> re.Pattern[str]:
    """A regular expression; LogRequestError says what is wrong with it."""
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise LogRequestError(f"--grep {text}: no regular expression: {error}") from None
