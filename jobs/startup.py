"""How far the workers' start-up is, read from their logs: for people and for the budget."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.engines.dialect import Dialect
from jobs.events import Journal
from jobs.logs import LogReader
from jobs.supervisor import Watched


class Progress:
    """One worker's start-up: furthest phase, percent within it, and when it last moved."""

    def __init__(self, watched: Watched, dialect: Dialect, now: float) -> None:
        self.watched = watched
        self.name = watched.step.name
        self._dialect = dialect
        self._reader = LogReader(watched.running.log, watched.running.offset)
        self.phase = dialect.phases[0]
        self.percent: int | None = None
        self.moved_at = now
        self.last_line = ""

    def look(self, now: float) -> bool:
        """Reads what is new; whether the phase changed. Several ranks share a log, so a phase
        never goes back."""
        before, offset = self.phase, self._reader.offset
        order = list(self._dialect.phases)
        for line in self._reader.new_lines():
            self.last_line = line.strip() or self.last_line
            mark = self._dialect.start_up(line)
            if mark and order.index(mark.phase) >= order.index(self.phase):
                self.percent = (
                    mark.percent
                    if mark.percent is not None or mark.phase != self.phase
                    else self.percent
                )
                self.phase = mark.phase
        if self._reader.offset != offset:
            self.moved_at = now
        return self.phase != before

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
            )

    def moved_at(self, names: Iterable[str]) -> float:
        """When one of these last wrote to its log."""
        return max((self.all[name].moved_at for name in names), default=self._begun)
