"""The processes of the native client: how many, started, told what to do, and ended.

The parent sends nothing itself: it writes progress, watches the gate and adds up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import mmap
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.clients.load import Load, load_text
from jobs.clients.tickets import make_tickets
from jobs.clients.worker import SLOT, Orders

STREAMS_PER_PROCESS = 1280
REQUESTS_PER_S_PER_PROCESS = 250.0
MOST_PROCESSES = 32
START_AHEAD_S = 0.2
"""Between the order to begin and the moment at which all processes do."""


class ProcessLostError(RuntimeError):
    """A process of the client ended by itself; the text is the whole message."""


def process_count(asked: int, load: Load, cores: int) -> int:
    """How many processes send `load`: `asked`, or (0) by the rule of docs/load-client.md.

    One process for every 1,280 streams (or 250 requests/s, where the streams are not limited), at
    most every second usable core, at most 32; never more than streams.
    """
    limit = load.concurrency or math.inf
    if asked:
        return int(min(asked, limit))
    wanted = load.concurrency / STREAMS_PER_PROCESS
    if not load.concurrency:
        wanted = (load.request_rate or 0.0) / REQUESTS_PER_S_PER_PROCESS
    return int(min(max(1, math.ceil(wanted)), max(1, cores // 2), MOST_PROCESSES, limit))


@dataclass(slots=True)
class Member:
    """One process and the socket it is told by."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Crew:
    """All processes of one measurement."""

    def __init__(self, members: list[Member], outs: list[Path], slots: np.ndarray) -> None:
        self.members = members
        self.outs = outs
        """The files of records the processes leave, one each."""
        self._slots = slots

    async def ready(self) -> None:
        """Started, with their prompt files open."""
        await self._all({"do": "ready"})

    async def connect(self) -> None:
        """All connections of a closed loop open."""
        await self._all({"do": "connect"})

    async def warm_up(self) -> list[dict[str, Any]]:
        """The warm-up wave; per process how its requests went."""
        return await self._all({"do": "warm_up"})

    def begin_anew(self) -> None:
        """The warm-up is told and over: what is counted from here on is measured."""
        self._slots[:] = np.zeros(1, SLOT)

    async def measure(self) -> None:
        """All processes begin at the same moment of the system's clock; returns at the end."""
        await self._all({"do": "measure", "at": time.monotonic() + START_AHEAD_S})

    def so_far(self) -> tuple[int, int, float]:
        """Requests that have ended, failed ones among them, and tokens of the good ones."""
        slots = self._slots
        return int(slots["done"].sum()), int(slots["failed"].sum()), float(slots["tokens"].sum())

    async def _all(self, order: dict[str, Any]) -> list[Any]:
        line = json.dumps(order).encode() + b"\n"
        for member in self.members:
            member.writer.write(line)
        tasks = [asyncio.ensure_future(self._answer(member)) for member in self.members]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _answer(self, member: Member) -> Any:
        line = b""
        with contextlib.suppress(ConnectionError):
            line = await member.reader.readline()
        if not line.endswith(b"\n"):
            code = await member.process.wait()
            raise ProcessLostError(
                f"a client process (pid {member.process.pid}) ended with status {code}; its own "
                "words are above"
            )
        return json.loads(line)["said"]


@asynccontextmanager
async def crew(load: Load, requests: tuple[int, int], count: int, out: Path) -> AsyncIterator[Crew]:
    """Processes that will send `requests` (warm-up, measured) jobs; all are gone on leaving.

    `out` is a folder for their records, on a disk that is not slow.
    """
    tickets = [make_tickets(number) for number in requests]
    progress = os.memfd_create("progress")
    os.ftruncate(progress, SLOT.itemsize * count)
    slots = np.frombuffer(mmap.mmap(progress, SLOT.itemsize * count), SLOT)
    outs = [out / f"{number}.npz" for number in range(count)]
    members: list[Member] = []
    try:
        for number in range(count):
            orders = Orders(
                process=number,
                processes=count,
                warmup=tickets[0],
                measured=tickets[1],
                progress=progress,
                out=str(outs[number]),
                load=load_text(load),
            )
            members.append(await _start(orders))
        yield Crew(members, outs, slots)
    finally:
        for member in members:
            member.writer.close()  # it ends itself when its socket does
        for member in members:
            await _ended(member.process)
        for descriptor in (*tickets, progress):
            os.close(descriptor)


async def _start(orders: Orders) -> Member:
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "jobs.clients.worker", str(theirs.fileno())),
            pass_fds=(theirs.fileno(), orders.warmup, orders.measured, orders.progress),
            stdin=asyncio.subprocess.DEVNULL,
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(json.dumps(asdict(orders)).encode() + b"\n")
    return Member(process, reader, writer)


async def _ended(process: asyncio.subprocess.Process, patience_s: float = 5.0) -> None:
    """Waits for a process that has been told to end, and kills one that does not."""
    try:
        async with asyncio.timeout(patience_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
