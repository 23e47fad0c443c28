"""How far the workers' start-up is, read from their logs: for people and for the budget."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobs.engines.dialect import Dialect
from jobs.events import Journal
from jobs.logs import LogReader
from jobs.supervisor import Watched

NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
KINDS_LIMIT = 5000
"""Kinds of log lines remembered; a log with more of them is no start-up's."""


class Progress:
    """One worker's start-up: furthest phase, percent within it, and when it last moved on."""

    def __init__(self, watched: Watched, dialect: Dialect, now: float) -> None:
        self.watched = watched
        self.name = watched.step.name
        self._dialect = dialect
        self._reader = LogReader(watched.running.log, watched.running.offset)
        self.phase = dialect.phases[0]
        self.percent: int | None = None
        self.moved_at = now
        self.wrote_at = now
        self.last_line = ""
        self._kinds: set[str] = set()

    def look(self, now: float) -> bool:
        """Reads what is new; whether the phase changed. Several ranks share a log, so a phase
        never goes back."""
        before, offset = self.phase, self._reader.offset
        for line in self._reader.new_lines():
            self.last_line = line.strip() or self.last_line
            if self._is_new(line) | self._is_further(line):
                self.moved_at = now
        if self._reader.offset != offset:
            self.wrote_at = now
        return self.phase != before

    def _is_new(self, line: str) -> bool:
        """Whether this kind of line, numbers aside, comes for the first time: a complaint that
        is repeated for ever is no progress."""
        kind = NUMBER.sub("#", line)
        if kind in self._kinds or len(self._kinds) >= KINDS_LIMIT:
            return False
        self._kinds.add(kind)
        return True

    def _is_further(self, line: str) -> bool:
        """Takes over phase and percent of a line; whether they say more than before."""
        order = self._dialect.phases
        mark = self._dialect.start_up(line)
        if mark is None or order.index(mark.phase) < order.index(self.phase):
            return False
        before = (self.phase, self.percent)
        if mark.percent is not None or mark.phase != self.phase:
            self.percent = mark.percent
        self.phase = mark.phase
        return (self.phase, self.percent) != before

    def __str__(self) -> str:
        return f"{self.phase} {self.percent} %" if self.percent is not None else self.phase


class Progresses:
    """All workers' start-ups together."""

    def __init__(
        self, workers: Iterable[Watched], dialect: Dialect, journal: Journal, now: float
    ) -> None:
        self._begun = now
        self._said_at = now
        self._journal = journal
        self.all = {w.step.name: Progress(w, dialect, now) for w in workers}

    def look(self, now: float, missing: Iterable[str], every_s: float = 15.0) -> None:
        """Tells every change of phase, and every 15 s where all stand that are not ready."""
        for progress in self.all.values():
            if progress.look(now):
                self._journal.note(
                    "start_up",
                    f"start-up reached {progress} after {now - self._begun:.0f} s",
                    step=progress.name,
                    start_up=progress.phase,
                    after_s=round(now - self._begun, 1),
                )
        names = list(missing)
        if now - self._said_at >= every_s and names:
            self._said_at = now
            shown = ", ".join(f"{name} {self.all[name]}" for name in names)
            ready = len(self.all) - len(names)
            self._journal.note(
                "waiting",
                f"{ready} of {len(self.all)} ready after {now - self._begun:.0f} s; {shown}",
                start_ups={name: str(self.all[name]) for name in names},
            )

    def wrote_at(self, names: Iterable[str]) -> float:
        """When one of these last wrote to its log."""
        return max((self.all[name].wrote_at for name in names), default=self._begun)

    def moved_at(self, names: Iterable[str]) -> float:
        """When one of these last made progress."""
        return max((self.all[name].moved_at for name in names), default=self._begun)
