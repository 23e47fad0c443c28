"""Starting steps: the only file that starts a process of the run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import JobError

CODE_DIR = Path(__file__).resolve().parent.parent
"""Where `python -m jobs.something` works: the steps' working directory."""


@dataclass(slots=True)
class Running:
    """A started process, leader of its own group and session; `offset` is where its log began."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    offset: int

    @property
    def pid(self) -> int:
        """The leader's pid, which is its group's number."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """None while it lives."""
        return self.process.returncode


async def start(name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> Running:
    """Starts `command` with its output appended to `log`; JobError when it cannot be started."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        offset = os.fstat(descriptor).st_size
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=descriptor,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(env),
            cwd=CODE_DIR,
            start_new_session=True,
        )
    except OSError as error:
        raise JobError(f"{name} could not be started: {command[0]}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return Running(name, process, log, offset)


class Guard:
    """The helper that outlives a killed driver and stops its steps (jobs/guard.py)."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Starts it, before any step."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jobs.guard",
            stdin=asyncio.subprocess.PIPE,
            cwd=CODE_DIR,
            start_new_session=True,
        )
        await self._tell(f"mark {self._mark}")

    async def add(self, pid: int) -> None:
        """A step's leader, from now on stopped with the driver."""
        await self._tell(f"+{pid}")

    async def drop(self, pid: int) -> None:
        """A step that is gone with all its children."""
        await self._tell(f"-{pid}")

    async def _tell(self, line: str) -> None:
        if self._process and self._process.stdin:
            with suppress(ConnectionError):
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()

    async def end(self) -> None:
        """After the tear-down: nothing is left to guard."""
        if self._process and self._process.stdin:
            self._process.stdin.close()
            try:
                async with asyncio.timeout(2.0):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()


async def run_aside(line: Sequence[str], env: Mapping[str, str], within_s: float) -> bool:
    """A short program beside the run, silent; whether it ended with 0 within `within_s` seconds.

    One that takes longer is killed.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(env),
            cwd=CODE_DIR,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(within_s):
            return await process.wait() == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
