"""Waiting for the end of a run, wherever it runs, its log copied meanwhile."""

from __future__ import annotations

import codecs
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from jobs.plain_files import open_plain
from jobs.plain_text import printable
from jobs.run_state import RunState, RunWatch

log = logging.getLogger("jobs")

POLL_S = 0.3
"""How often the run's own files are looked at."""

ASK_S = 3.0
"""How often Slurm is asked while it answers; doubled up to ASK_MOST_S while nothing is known."""

ASK_MOST_S = 30.0

LAST_WORD_S = 5.0
"""A driver's last word may reach this machine a moment after Slurm's."""


def _nothing() -> None:
    """What happens between two looks when nobody reads along."""


@dataclass(slots=True)
class Waiting:
    """The wait for one run's end; `meanwhile` is done between looks."""

    watch: RunWatch
    meanwhile: Callable[[], None] = _nothing
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def end(self) -> RunState:
        """The run's state once nothing more will come of it; changes are logged as they are seen.

        A question that fails is asked again, ever more slowly; it never ends the wait.
        """
        pause = ASK_S
        told: tuple[str, str | None] | None = None
        while True:
            state = self.watch.look()
            if state.word == "lost":
                state = self._last_word() or state
            for warning in self.watch.slurm.warnings:
                log.warning("%s", warning)
            self.watch.slurm.warnings.clear()
            if state.over:
                return state
            said = (state.word, state.job.state.word if state.job else None)
            if said != told:
                told = said
                level = logging.WARNING if state.word == "unknown" else logging.INFO
                log.log(level, "%s", state.text)
            pause = min(2 * pause, ASK_MOST_S) if state.word == "unknown" else ASK_S
            self._pause(pause)

    def _last_word(self) -> RunState | None:
        """What the run says itself within a moment of its end; None when it says nothing."""
        until = self.clock() + LAST_WORD_S
        while self.clock() < until:
            if os.path.lexists(self.watch.run_dir.outcome):
                return self.watch.look()
            self._rest()
        return None

    def _pause(self, seconds: float) -> None:
        """`seconds`, or less when the run's last word appears meanwhile."""
        outcome = self.watch.run_dir.outcome
        until, there = self.clock() + seconds, os.path.lexists(outcome)
        while self.clock() < until and (there or not os.path.lexists(outcome)):
            self._rest()

    def _rest(self) -> None:
        self.meanwhile()
        self.sleep(POLL_S)


class LogTail:
    """What was added to a growing text file since the last look, made harmless for a terminal."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self, out: TextIO) -> None:
        """Write what is new to `out`; a file that is not there yet has nothing."""
        try:
            with open_plain(self._path) as stream:
                stream.seek(self._position)
                while data := stream.read(1 << 20):
                    self._position += len(data)
                    text = self._decoder.decode(data).replace("\r\n", "\n").replace("\r", "\n")
                    out.write(printable(text, keep="\n\t"))
        except OSError:
            return
        out.flush()
