"""One process of the native client: `python -m jobs.clients.worker`, started by processes.py only.

It is told what to do in lines of JSON on an inherited socket, and answers in such lines; when that
socket ends, so does the process. Requests are drawn from the descriptors it inherits, so that all
processes together send what one would.
"""

from __future__ import annotations

import asyncio
import gc
import json
import mmap
import os
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from jobs.clients.conversations import turns_of
from jobs.clients.load import Load, load_from_text
from jobs.clients.own_load import OwnLoad
from jobs.clients.schedule import arrivals
from jobs.clients.streams import Job, Streams
from jobs.clients.target import find_target
from jobs.clients.tickets import draw
from jobs.prompts.reader import PromptFile

API_KEY_VARIABLE = "OPENAI_API_KEY"
SLOT = np.dtype([("done", "f8"), ("failed", "f8"), ("tokens", "f8")])
"""How far a process is, in memory it shares with its parent."""
TELL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The first line a process reads: who it is, its descriptors, and the load."""

    process: int
    processes: int
    warmup: int
    measured: int
    """Descriptors of tickets."""
    progress: int
    """Descriptor of the shared memory."""
    out: str
    load: str


class Worker:
    """A process' prompt file, streams and phases."""

    def __init__(self, orders: Orders, api_key: str | None) -> None:
        self.orders = orders
        self.whole: Load = load_from_text(orders.load)
        self.load = self.whole.share(orders.process, orders.processes)
        self.prompts = PromptFile.open(Path(self.load.prompts))
        self._api_key = api_key
        self.streams: Streams | None = None
        size = SLOT.itemsize * orders.processes
        shared = np.frombuffer(mmap.mmap(orders.progress, size), SLOT)
        self.slot = shared[orders.process]

    async def ready(self) -> None:
        """Nothing more to do: the prompt file is open."""

    async def connect(self) -> None:
        """The server's address, and all connections of a closed loop."""
        self.streams = Streams(await find_target(self.load, self.prompts, self._api_key))
        if not self._timed():
            await self.streams.open(self.load.concurrency)

    def _timed(self) -> bool:
        return self.load.request_rate is not None or self.prompts.arrival_s is not None

    async def warm_up(self) -> dict[str, Any]:
        """The warm-up wave; how its requests failed."""
        streams = self._streams()
        jobs = turns_of(self.prompts, range(self.prompts.warmup))
        rate = self.load.warmup_rate
        async with self._telling():
            if rate is None:
                await streams.open(max(1, self.load.concurrency))
                await streams.closed_loop(jobs, lambda: draw(self.orders.warmup))
            else:
                mine = self._mine(jobs, arrivals(len(jobs), rate, 1.0, self.load.seed))
                await streams.open_loop(mine, time.monotonic(), self.load.concurrency)
        log = streams.new_log()
        return {"requests": log.done, "failed": log.failed, "errors": log.samples}

    async def measure(self, at: float) -> None:
        """The measured requests from `at` (monotonic) on; the file with their records."""
        streams = self._streams()
        first = self.prompts.warmup
        jobs = turns_of(self.prompts, range(first, len(self.prompts)))
        due = self._due(jobs)
        mine = None if due is None else self._mine(jobs, due)
        gc.collect()
        gc.freeze()
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        own = OwnLoad()
        own.begin()
        async with self._telling():
            if mine is None:
                await streams.closed_loop(jobs, lambda: draw(self.orders.measured))
            else:
                await streams.open_loop(mine, at, self.load.concurrency)
        own.end()
        streams.log.write(
            Path(self.orders.out),
            lags=np.asarray(own.lags, np.float32),
            load=np.array([own.share, own.peak_share, streams.backlog_max, at, own.cpu_s]),
        )

    def _due(self, jobs: Sequence[Job]) -> np.ndarray | None:
        if self.load.request_rate is not None:
            load = self.load
            return arrivals(len(jobs), load.request_rate or 0.0, load.burstiness, load.seed)
        if self.prompts.arrival_s is None:
            return None
        return np.array([self.prompts.arrival_s[job[0]] for job in jobs])

    def _mine(self, jobs: Sequence[Job], due: np.ndarray) -> list[tuple[float, Job]]:
        """This process' share of timed jobs: every n-th, in order of time."""
        order = np.argsort(due, kind="stable")[self.orders.process :: self.orders.processes]
        return [(float(due[i]), jobs[i]) for i in order]

    def _streams(self) -> Streams:
        if self.streams is None:
            raise RuntimeError("connect() comes first")
        return self.streams

    @asynccontextmanager
    async def _telling(self) -> AsyncIterator[None]:
        """While inside, the shared memory says how far this process is."""

        async def tell() -> None:
            while True:
                self._say_slot()
                await asyncio.sleep(TELL_S)

        telling = asyncio.ensure_future(tell())
        try:
            yield
        finally:
            telling.cancel()
            self._say_slot()

    def _say_slot(self) -> None:
        log = self._streams().log
        self.slot["done"], self.slot["failed"] = log.done, log.failed
        self.slot["tokens"] = log.tokens


async def serve(control: socket.socket) -> None:
    """Does as it is told until the control socket ends."""
    reader, writer = await asyncio.open_connection(sock=control)
    orders = Orders(**json.loads(await reader.readline()))
    worker = Worker(orders, os.environ.get(API_KEY_VARIABLE))
    steps: dict[str, Callable[..., Any]] = {
        "ready": worker.ready,
        "connect": worker.connect,
        "warm_up": worker.warm_up,
        "measure": worker.measure,
    }
    coming = asyncio.ensure_future(reader.readline())
    while line := await coming:
        coming = asyncio.ensure_future(reader.readline())
        told = json.loads(line)
        doing = asyncio.ensure_future(steps[told.pop("do")](**told))
        await asyncio.wait({doing, coming}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            os._exit(0)  # told to stop, or the parent is gone: nothing here is worth a tidy end
        writer.write(json.dumps({"said": doing.result()}).encode() + b"\n")
        await writer.drain()


def main() -> None:
    """The program: one argument, the control socket's descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.set_threshold(100_000, 50, 100)
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
