"""`watch`: stays with runs until all have ended; drawn on a terminal, a line log elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live

from jobs.runs.finding import short_name
from jobs.runs.looking import Seen, Watcher
from jobs.runs.measuring import measuring, measuring_text
from jobs.runs.watch_view import watch_view
from jobs.runs.words import INTERRUPTED, clock
from jobs.store import RunDir

POLL_S = 1.0
REDRAW_S = 5.0
"""Without news the picture is drawn anew so often: its clocks go on, little is sent over ssh."""

ASK_SLURM_S = 10.0
TELL_S = 15.0
"""In the line log, how often the progress of a measurement is told."""

PAST_LINES = 20
"""In the line log, how many events from before the watching are told."""

LEFT_ALONE = "watching ended; the runs go on. To end them: python -m jobs cancel"


@dataclass(slots=True)
class Watch:
    """The runs being watched; `find` says which, and is asked again for those that appear.

    While `more_to_come` says so, the end of all of them is not the end.
    """

    find: Callable[[], Sequence[RunDir]]
    console: Console
    more_to_come: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    watcher: Watcher = field(init=False)
    _asked_at: float = 0.0
    _more: bool = True
    """Whether runs were still to come before the last look."""

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.find())

    def look(self) -> list[Seen]:
        """All runs now; Slurm is asked every 10 s, new runs are looked for as often."""
        now, more = time.monotonic(), self.more_to_come()
        last_ones = self._more and not more
        self._more = more
        if last_ones or not self._asked_at or now - self._asked_at >= ASK_SLURM_S:
            self._asked_at = now
            self.watcher.runs = self.find()
            self.watcher.ask_slurm()
        return self.watcher.look()

    def is_over(self, seen: Sequence[Seen]) -> bool:
        """Whether all runs have ended, and no other will follow."""
        return not self._more and all(one.standing.over for one in seen)

    def until_the_end(self) -> int:
        """0 when all completed, 1 when one did not, 130 after Ctrl-C (the runs live on)."""
        try:
            seen = self._drawn() if self.console.is_terminal else self._told()
        except KeyboardInterrupt:
            sys.stderr.write(f"\n{LEFT_ALONE} {_names(self.watcher.runs)}\n")
            return INTERRUPTED
        return 0 if all(one.standing.good for one in seen) else 1

    def _drawn(self) -> list[Seen]:
        """On a terminal: one picture, drawn anew when something changed."""
        last, drawn_at = None, 0.0
        with Live(console=self.console, auto_refresh=False, transient=False) as live:
            while True:
                seen, now = self.look(), time.time()
                over = self.is_over(seen)
                news = [_news(one) for one in seen]
                if news != last or over or now - drawn_at >= REDRAW_S:
                    live.update(watch_view(seen, now), refresh=True)
                    last, drawn_at = news, now
                if over:
                    return seen
                self.sleep(POLL_S)

    def _told(self) -> list[Seen]:
        """Elsewhere: one line for whatever happens."""
        teller = Teller()
        while True:
            seen = self.look()
            for one in seen:
                for line in teller.lines(one):
                    sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            if self.is_over(seen):
                return seen
            self.sleep(POLL_S)


def _news(one: Seen) -> tuple[object, ...]:
    """What has to change for the picture to be worth drawing again."""
    return (*_state(one), measuring(one.facts), one.facts.timeline.last)


def _state(one: Seen) -> tuple[str, str, str]:
    """What is told when it changes; how long Slurm has been silent is not."""
    standing = one.standing
    lasting = standing.remark if standing.over or standing.disagrees else ""
    return (standing.text, standing.slurm, lasting)


def _names(runs: Sequence[RunDir]) -> str:
    return " ".join(short_name(run) for run in runs[:20]) + (" ..." if len(runs) > 20 else "")


@dataclass(slots=True)
class Teller:
    """The line log: every event once, progress now and then, changes on Slurm's side."""

    _standing: dict[RunDir, tuple[str, str, str]] = field(default_factory=dict)
    _told: dict[RunDir, tuple[tuple[str, str], float]] = field(default_factory=dict)
    """Of which measurement (name, stage) progress was told last, and when."""

    def lines(self, one: Seen) -> list[str]:
        """What is new of one run."""
        run, facts = one.facts.run_dir, one.facts
        name = f"{short_name(run)} {facts.label}"
        news = facts.timeline.take_news()
        if run not in self._standing:
            news = [] if one.standing.over else news[-PAST_LINES:]
        found = [
            f"{clock(entry.at)} {name} | {entry.phase} | "
            + (f"{entry.step}: " if entry.step else "")
            + (entry.text.splitlines() or [""])[0]
            for entry in news
        ]
        stamp = f"{clock(time.time())} {name}"
        standing = _state(one)
        if self._standing.get(run) != standing:
            self._standing[run] = standing
            slurm = f", Slurm: {one.standing.slurm}" if one.standing.slurm else ""
            remark = f", {one.standing.remark}" if one.standing.remark else ""
            found.append(f"{stamp} | = {one.standing.text}{slurm}{remark}")
        now = measuring(facts)
        if now and now.progress.done and self._is_due(run, (now.name, now.progress.stage)):
            found.append(f"{stamp} | {measuring_text(now)}")
        return found

    def _is_due(self, run: RunDir, measured: tuple[str, str]) -> bool:
        """The first progress of a measurement is told at once, more of it every TELL_S."""
        last, at = self._told.get(run, (None, 0.0))
        due = last != measured or time.monotonic() - at >= TELL_S
        if due:
            self._told[run] = (measured, time.monotonic())
        return due
