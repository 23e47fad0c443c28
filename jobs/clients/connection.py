"""One kept HTTP/1.1 connection that carries one streamed exchange after the other.

httptools (llhttp) parses HTTP, orjson JSON; written here is only what they do not do: splitting
events, stamping, and bounding. The clock is read first thing when bytes are handed over, before
anything is parsed. docs/load-client.md says why this stack, with the measurement.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

import httptools

from jobs.clients.answer import DONE, Answer
from jobs.clients.failure import SAMPLE_LENGTH, Failure, failure
from jobs.clients.sse import EventReader, EventTooLargeError

MAX_QUIET_BYTES = 64 * 1024
"""Bytes without a byte of body among them: headers, trailers, chunk sizes. More is no HTTP."""
TCP_INFO_BYTES = 104
LAST_DATA_RECEIVED = 8 + 11 * 4
"""Offset of tcpi_last_data_recv (ms) in struct tcp_info, linux/tcp.h."""


class Exchange:
    """One request under way. Times are seconds of CLOCK_MONOTONIC; 0 where not reached.

    `due_s`: when it ought to be sent (open loop), else `sent_s`. `heard_s`: the last bytes.
    `late_s`: how long the first chunk's bytes had lain in the socket when they were stamped.
    """

    __slots__ = ("answer", "due_s", "end_s", "heard_s", "index", "late_s", "sent_s", "status")

    def __init__(self, index: int, answer: Answer, due_s: float, sent_s: float) -> None:
        self.index = index
        self.answer = answer
        self.due_s = due_s
        self.sent_s = sent_s
        self.heard_s = sent_s
        self.end_s = 0.0
        self.status = 0
        self.late_s = float("nan")


Ended = Callable[["Connection", Exchange, Failure | None], None]


class Connection(asyncio.Protocol):
    """`ended` is told of each exchange's end, once; `usable` says whether another can follow."""

    def __init__(self, ended: Ended, exact: bool) -> None:
        self._ended = ended
        self._exact = exact
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._carried = 0
        self.usable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._socket = transport.get_extra_info("socket")
        self.usable = True

    def send(self, exchange: Exchange, request: bytes) -> None:
        """Sends a whole request; only on a usable connection without an exchange."""
        self._exchange = exchange
        self._events = EventReader()
        self._refusal = ""
        self._sample = b""
        self._type = self._encoding = b""
        self._framed = self._complete = False
        self._quiet = 0
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        exchange = self._exchange
        if exchange is None:
            self.abort()  # nobody asked for these bytes
            return
        exchange.heard_s = self._at = at
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(failure("http_101", "speaks another protocol from here on"))
            return
        except httptools.HttpParserError as error:
            if not self._complete:
                self._fail(failure("bad_http", f"{error}: {data[:120]!r}"))
                return
            self.usable = False
        wrong = exchange.answer.wrong
        if wrong is not None:
            self._fail(wrong)
        elif self._complete:
            self._finish(exchange)
        elif self._quiet > MAX_QUIET_BYTES:
            self._fail(failure("head_too_large", f"{self._quiet} bytes without a body"))
        elif len(self._sample) >= SAMPLE_LENGTH:
            self._fail(self._refused())

    def on_message_begin(self) -> None:
        """Of httptools: a response; a second one to one request is nobody's, and is not read."""
        if self._complete:
            self.usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of httptools: one header, or trailer."""
        if self._complete:
            return
        name = name.lower()
        if name == b"content-type":
            self._type = value.lower()
        elif name == b"content-length":
            self._framed = True
        elif name == b"transfer-encoding":
            self._framed = True
            coding = value.lower().strip()
            if coding != b"chunked":
                self._encoding = coding
        elif name == b"content-encoding":
            self._encoding = value.lower()

    def on_headers_complete(self) -> None:
        """Of httptools: the status is known."""
        status = self._parser.get_status_code()
        if self._exchange is None or self._complete or 100 <= status < 200:
            return
        self._exchange.status = status
        if status != 200:
            self._refusal = f"http_{status}"
        elif not self._type.startswith(b"text/event-stream"):
            self._refusal = "content_type"
            self._sample = self._type[:80] + b": "
        elif self._encoding not in (b"", b"identity"):
            self._refusal = "content_encoding"
            self._sample = self._encoding[:80] + b": "

    def on_body(self, body: bytes) -> None:
        """Of httptools: a piece of the body, without the chunks' framing."""
        self._quiet = 0
        exchange = self._exchange
        if exchange is None or self._complete:
            return
        if self._refusal:
            self._sample += body[: SAMPLE_LENGTH - len(self._sample)]
            return
        answer = exchange.answer
        if answer.wrong is not None:
            return
        try:
            found = self._events.feed(body)
        except EventTooLargeError as error:
            answer.wrong = failure("event_too_large", str(error))
            return
        before = len(answer.times)
        for data in found:
            answer.take(data, self._at)
            if answer.wrong is not None:
                return
        if not before and answer.times:
            exchange.late_s = self._waited()

    def on_message_complete(self) -> None:
        """Of httptools: the response is whole."""
        if self._exchange is not None and self._exchange.status:
            self._complete = True
            self.usable = self.usable and self._parser.should_keep_alive()

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        exchange = self._exchange
        if exchange is None:
            return
        # A body without a length ends where the connection ends.
        if exc is None and exchange.status and not self._framed:
            self._finish(exchange)
        elif self._carried and exchange.heard_s == exchange.sent_s:
            how = "without a word" if exc is None else f"{type(exc).__name__}: {exc}"
            self._fail(failure("kept_closed", f"after {self._carried} answers, {how}"))
        elif exc is None:
            self._fail(failure("disconnected", f"after {len(exchange.answer.times)} chunks"))
        else:
            self._fail(failure("reset", f"{type(exc).__name__}: {exc}"))

    def give_up(self, kind: str, text: str) -> None:
        """Ends the exchange as failed, and the connection with it."""
        self._fail(failure(kind, text))

    def abort(self) -> None:
        """The connection, closed at once."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, exchange: Exchange) -> None:
        if self._refusal:
            self._end(self._refused())
            return
        answer = exchange.answer
        # The specification drops an event without its blank line; [DONE] is not to be missed.
        for data in self._events.close():
            if data == DONE:
                answer.take(data, self._at)
        self._end(answer.verdict(self._exact))

    def _refused(self) -> Failure:
        return failure(self._refusal, self._sample.decode("utf-8", "replace"))

    def _fail(self, why: Failure) -> None:
        """Whatever else went wrong, a refusal is what the server meant."""
        self.abort()
        self._end(self._refused() if self._refusal else why)

    def _end(self, why: Failure | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        self._carried += 1
        exchange.end_s = time.monotonic() if why else exchange.heard_s
        # Who gave a wrong answer is not trusted with the next request; a refusal is no such thing.
        if not self.usable or (why is not None and not self._refusal):
            self.abort()
        self._ended(self, exchange, why)

    def _waited(self) -> float:
        """Seconds since the kernel took in the bytes just read, to its tick (1 to 4 ms).

        A lower bound: more bytes that came meanwhile hide how long the first had waited.
        """
        if self._socket is None:
            return float("nan")
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        if len(info) < LAST_DATA_RECEIVED + 4:
            return float("nan")
        return float(struct.unpack_from("=I", info, LAST_DATA_RECEIVED)[0]) / 1000.0
