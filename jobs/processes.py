"""Starting steps and stopping them all: the only file that starts or signals a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import JobError
from jobs.process_tree import members, signal_each, signal_groups

POLL_S = 0.1
KILL_AFTER_S = 8.0
GIVE_UP_S = 3.5
"""From KILL on. 8 + 3.5 leaves half a second of the promised 12 for the way out."""

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


async def stop_all(
    leaders: Sequence[int], mark: str, kill_steps: Callable[[], Awaitable[None]] | None = None
) -> list[str]:
    """Stops every step at once: TERM, after 8 s KILL; who still lives after that, in words.

    `kill_steps` is asked before KILL: srun must not die before the tasks it started elsewhere.
    Waiting is one loop over /proc, so its time does not depend on how many there are.
    """
    seen = {p.pid: p for p in members(leaders, mark)}
    signal_groups(leaders, signal.SIGTERM)
    signal_each((p for p in seen.values() if p.group not in leaders), signal.SIGTERM)
    if not await _gone(leaders, mark, KILL_AFTER_S):
        if kill_steps is not None:
            await kill_steps()
            await _gone(leaders, mark, 1.0)
        until = time.monotonic() + (GIVE_UP_S - (2.0 if kill_steps else 0.0))
        while (left := members(leaders, mark)) and time.monotonic() < until:
            signal_each(left, signal.SIGKILL)
            await asyncio.sleep(POLL_S)
    return [f"pid {p.pid} (group {p.group})" for p in members(leaders, mark)]


async def _gone(leaders: Sequence[int], mark: str, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not members(leaders, mark):
            return True
        await asyncio.sleep(POLL_S)
    return False
