"""The gate of a client inside the engine's own Python, and how far it is.

Like jobs/clients/gate.py, for a program that waits in the middle of somebody else's code and has
the standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.05
PROGRESS_S = 2.0


class GateStopError(Exception):
    """The client was told not to run (any more)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Three files in one folder: we write .ready, whoever runs us writes .go or .stop."""

    folder: Path
    name: str

    def say_ready(self) -> None:
        """Everything that takes time is prepared."""
        write_text(self.folder / f"{self.name}.ready", "ready\n")

    def check_stop(self) -> None:
        """GateStopError when `.stop` is there or the folder is gone."""
        if (self.folder / f"{self.name}.stop").exists():
            raise GateStopError(f"told to stop by {self.folder / self.name}.stop")
        if not self.folder.is_dir():
            raise GateStopError(f"gate folder {self.folder} is gone")

    def wait_for_go(self) -> None:
        """Returns once `.go` is there."""
        while not (self.folder / f"{self.name}.go").exists():
            self.check_stop()
            time.sleep(POLL_S)

    async def watch_stop(self) -> None:
        """Never returns; GateStopError as soon as `.stop` is there."""
        while True:
            self.check_stop()
            await asyncio.sleep(5 * POLL_S)


class RequestCounter:
    """In place of vLLM's progress bar: counts the requests that ended, and says how many in
    <gate>/<name>.progress (read by jobs/progress.py), from a thread that delays no request.
    `tokens`: of all of them, prompts and answers."""

    def __init__(self, gate: Gate, total: int, tokens: int) -> None:
        self._path = gate.folder / f"{gate.name}.progress"
        self._total, self._tokens = total, tokens
        self._done = 0
        self._begun = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._tell, daemon=True, name="progress").start()

    def update(self, count: int = 1) -> None:
        """So many more requests ended, well or badly."""
        self._done += count

    def close(self) -> None:
        """All requests ended."""
        self._over.set()

    def _tell(self) -> None:
        while not self._over.is_set():
            done = min(self._done, self._total)
            told = {"stage": "measured", "done": done, "failed": 0, "total": self._total}
            told |= {"elapsed_s": time.monotonic() - self._begun, "t": time.time()}
            told |= {"tokens": self._tokens * done / self._total, "exact": False}
            with contextlib.suppress(OSError):
                write_text(self._path, json.dumps(told) + "\n")
            self._over.wait(PROGRESS_S)


def write_text(path: Path, text: str) -> None:
    """`text` at `path`, whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
