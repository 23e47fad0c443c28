"""The gate: a client prepares early, says so, and is held until it is told to go.

Three files in one folder, named after the client: `.ready` is written by the client, `.go` and
`.stop` by whoever runs it. Files work on every file system the nodes share.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from jobs.store import write_text

POLL_S = 0.05


class GateStopError(Exception):
    """The client was told not to run (any more)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of the client called `name` in `folder`."""

    folder: Path
    name: str

    @property
    def progress(self) -> Path:
        """Where the client says how far it is (jobs/progress.py)."""
        return self.folder / f"{self.name}.progress"

    def say_ready(self) -> None:
        """Everything that takes time is prepared."""
        write_text(self.folder / f"{self.name}.ready", "ready\n")

    async def wait_for_go(self) -> None:
        """Returns once `.go` is there; GateStopError when `.stop` is, or the folder is gone."""
        while not (self.folder / f"{self.name}.go").exists():
            self.check_stop()
            await asyncio.sleep(POLL_S)

    async def watch_stop(self) -> None:
        """Never returns; GateStopError as soon as `.stop` is there."""
        while True:
            self.check_stop()
            await asyncio.sleep(5 * POLL_S)

    def check_stop(self) -> None:
        """GateStopError when `.stop` is there or the folder is gone."""
        if (self.folder / f"{self.name}.stop").exists():
            raise GateStopError(f"{self.name}: told to stop by {self.folder / self.name}.stop")
        if not self.folder.is_dir():
            raise GateStopError(f"{self.name}: gate folder {self.folder} is gone")
