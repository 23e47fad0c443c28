"""The concurrent streams of one process: each sends its next request when the last answer ended."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from jobs.clients.answer import Answer
from jobs.clients.bodies import assistant
from jobs.clients.connection import Connection, Exchange
from jobs.clients.failure import Failure, failure
from jobs.clients.request_log import RequestLog
from jobs.clients.target import Target

STARTS_AT_ONCE = 8
"""Requests sent before answers are looked at again: a burst must not delay its own first tokens."""
CONNECTS_AT_ONCE = 256
IDLE_LIMIT_S = 3.0
"""A connection unused for longer is not trusted: servers close theirs after 5 s (uvicorn's)."""
SWEEP_S = 0.25

Job = Sequence[int]
"""Requests to be sent one after the other: one, or the turns of a conversation."""


class Stream:
    """One stream: a connection that is opened when it is needed, and a job under way."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._connection: Connection | None = None
        self._exchange: Exchange | None = None
        self._job: Iterator[int] = iter(())
        self._history = b""
        self._freed_s = 0.0

    async def open(self) -> None:
        """Connects; OSError (socket.gaierror: no address), TimeoutError when it cannot."""
        target = self._streams.target
        if target.unknown:
            raise socket.gaierror(target.unknown)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(target.load.connect_limit_s):
            _, self._connection = await loop.create_connection(
                lambda: Connection(self._ended, target.load.ignore_eos),
                *(target.host, target.port),
                ssl=target.tls,
                server_hostname=target.name if target.tls else None,
            )
        self._freed_s = time.monotonic()

    def begin(self, job: Job, due_s: float = 0.0) -> None:
        """Sends the requests of a job, one after the other."""
        self._job = iter(job)
        self._history = b""
        self._send(next(self._job), due_s)

    def _send(self, index: int, due_s: float = 0.0) -> None:
        target, bodies = self._streams.target, self._streams.target.bodies
        wanted = int(target.output_tokens[index])
        request = bodies.request(index, wanted, self._history)
        answer = Answer(wanted, keep_text=target.wait_s is not None)
        now = time.monotonic()
        exchange = Exchange(index, answer, due_s or now, now)
        self._exchange = exchange
        connection = self._connection
        if connection is not None and connection.usable:
            if now - self._freed_s < IDLE_LIMIT_S:
                connection.send(exchange, request)
                return
            connection.abort()
        # Opening a connection is part of the request's time, as in the usual clients.
        self._streams.spawn(self._open_and_send(exchange, request))

    async def _open_and_send(self, exchange: Exchange, request: bytes) -> None:
        try:
            await self.open()
        except TimeoutError:
            why = failure("timeout_connect", f"{self._streams.target.load.connect_limit_s:g} s")
        except socket.gaierror as error:
            why = failure("dns", str(error))
        except ssl.SSLError as error:
            why = failure("tls", str(error))
        except OSError as error:
            why = failure("connect", str(error))
        else:
            if self._connection is not None and self._connection.usable:
                self._connection.send(exchange, request)
                return
            why = failure("disconnected", "at once after connecting")
        exchange.end_s = time.monotonic()
        self._end(exchange, why)

    def _ended(self, connection: Connection, exchange: Exchange, why: Failure | None) -> None:
        if not connection.usable:
            self._connection = None
        self._freed_s = exchange.heard_s
        self._end(exchange, why)

    def _end(self, exchange: Exchange, why: Failure | None) -> None:
        self._exchange = None
        self._streams.log.add(exchange, why)
        if why is not None:
            self._drop_rest(exchange)
            self._streams.free(self)
            return
        following = next(self._job, None)
        if following is None:
            self._streams.free(self)
            return
        target = self._streams.target
        said = assistant("".join(exchange.answer.texts))
        self._history += target.bodies.message(exchange.index) + b"," + said + b","
        pause = float(target.wait_s[following]) if target.wait_s is not None else 0.0
        asyncio.get_running_loop().call_later(max(0.0, pause), self._send, following)

    def _drop_rest(self, exchange: Exchange) -> None:
        """Later turns cannot be asked: each is a failure of its own."""
        for index in self._job:
            never = Exchange(index, Answer(0), exchange.end_s, exchange.end_s)
            never.end_s = exchange.end_s
            why = failure("earlier_turn", f"request {exchange.index} failed")
            self._streams.log.add(never, why)

    def check(self, now: float) -> None:
        """Gives up a request that takes too long."""
        exchange, connection = self._exchange, self._connection
        if exchange is None or connection is None:
            return
        load = self._streams.target.load
        chunks = f"{len(exchange.answer.times)} chunks"
        if now - exchange.sent_s > load.timeout_s:
            connection.give_up("timeout_total", f"{load.timeout_s:g} s, {chunks}")
        elif now - exchange.heard_s > load.stall_timeout_s:
            connection.give_up("timeout_stall", f"{load.stall_timeout_s:g} s, after {chunks}")


class Streams:
    """All streams of one process, for one phase after the other."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.log = RequestLog(target.prompt_tokens)
        self.backlog_max = 0
        self._all: list[Stream] = []
        self._idle: deque[Stream] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: Callable[[], tuple[Job, float] | None] = lambda: None
        self._over: asyncio.Future[None] | None = None
        self._more = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine to its end; it handles what it expects itself."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() and self._over and not self._over.done():
            self._over.set_exception(task.exception() or RuntimeError())

    def new_log(self) -> RequestLog:
        """The requests so far; later ones go into a new log."""
        log, self.log = self.log, RequestLog(self.target.prompt_tokens)
        self.backlog_max = 0
        return log

    async def open(self, count: int) -> None:
        """Opens `count` connections ahead; one that cannot be opened is tried again when used."""
        room = asyncio.Semaphore(CONNECTS_AT_ONCE)

        async def one(stream: Stream) -> None:
            async with room:
                try:
                    await stream.open()
                except (OSError, TimeoutError):
                    return

        while len(self._all) < count:
            self._add()
        await asyncio.gather(*(one(stream) for stream in self._all[:count]))

    def _add(self) -> Stream:
        stream = Stream(self)
        self._all.append(stream)
        self._idle.append(stream)
        return stream

    async def closed_loop(self, jobs: Sequence[Job], draw: Callable[[], int | None]) -> None:
        """As many jobs at a time as there are streams, until `draw` gives no more."""

        def following() -> tuple[Job, float] | None:
            number = draw()
            return None if number is None else (jobs[number], 0.0)

        self._next = following
        self._more = False
        starting = list(self._idle)
        self._idle.clear()
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        self._more = True
        loop.call_soon(self._start_some, starting)
        await self._watched()

    def _start_some(self, waiting: list[Stream]) -> None:
        for stream in waiting[:STARTS_AT_ONCE]:
            self.free(stream)
        rest = waiting[STARTS_AT_ONCE:]
        self._more = bool(rest)
        if rest:
            asyncio.get_running_loop().call_soon(self._start_some, rest)
        else:
            self._look_whether_over()

    async def open_loop(
        self, jobs: Sequence[tuple[float, Job]], begin_s: float, limit: int
    ) -> None:
        """Each job when it is due, at most `limit` at a time (0: no limit).

        `jobs` are in order of their times, in seconds after `begin_s` (monotonic).
        """
        waiting: deque[tuple[Job, float]] = deque()
        self._next = lambda: waiting.popleft() if waiting else None
        self._over = asyncio.get_running_loop().create_future()
        self._more = True
        self.spawn(self._send_due(jobs, begin_s, waiting, limit))
        await self._watched()

    async def _send_due(
        self,
        jobs: Sequence[tuple[float, Job]],
        begin_s: float,
        waiting: deque[tuple[Job, float]],
        limit: int,
    ) -> None:
        for after_s, job in jobs:
            due_s = begin_s + after_s
            pause = due_s - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            waiting.append((job, due_s))
            if not self._idle and (not limit or len(self._all) < limit):
                self._add()
            if self._idle:
                # The one used last: its connection is the least likely to have been closed.
                self.free(self._idle.pop())
            self.backlog_max = max(self.backlog_max, len(waiting))
        self._more = False
        self._look_whether_over()

    def free(self, stream: Stream) -> None:
        """`stream` can take the next job."""
        found = self._next()
        if found is None:
            self._idle.append(stream)
            self._look_whether_over()
        else:
            stream.begin(*found)

    def _look_whether_over(self) -> None:
        over = self._over
        if over and not over.done() and not self._more and len(self._idle) == len(self._all):
            over.set_result(None)

    async def _watched(self) -> None:
        """Until the phase is over, giving up requests that take too long meanwhile."""
        over = self._over
        if over is None:
            return
        load = self.target.load
        pause = min(SWEEP_S, load.timeout_s / 4, load.stall_timeout_s / 4)
        while not over.done():
            await asyncio.wait({over}, timeout=pause)
            now = time.monotonic()
            for stream in self._all:
                stream.check(now)
        over.result()
