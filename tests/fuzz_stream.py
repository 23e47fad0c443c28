"""Fuzzing the stream reader: whatever a server sends, each request ends once, as what it was.

    python -m tests.fuzz_stream --minutes 10

Two properties, over answers that are cut anywhere:
1. A right answer stays good and keeps its tokens, in whatever legal clothes (framing, line ends,
   comments, fields, pings, usage in every chunk).
2. A damaged answer (bytes changed, dropped, doubled, cut off, foreign pieces put in) ends exactly
   once, raises nothing, is good or not however it is cut, and is good only with [DONE], a chunk
   and the wanted number of tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from jobs.clients.answer import Answer
from jobs.clients.connection import Connection, Exchange
from jobs.clients.failure import Failure

LINE_ENDS = ("\n", "\r\n", "\r")
EXTRAS = (": ping", "event: message", "id: 7", "retry: 10", "unknown", ":", "data-not: x")
FOREIGN: tuple[bytes, ...] = (
    *(b"\r\n", b"0\r\n\r\n", b"data: ", b"\x00", b"\xff\xfe", b"HTTP/1.1 200 OK\r\n", b"[DONE]"),
    *(b'data: {"error":"x"}\n\n', b"data: [DONE]\n\n", b"\n\n", b"5\r\nhello\r\n", b"{" * 50),
)


class Wire:
    """In place of a transport: remembers that it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        """Requests go nowhere."""

    def abort(self) -> None:
        """Closed."""
        self.closed = True

    def get_extra_info(self, name: str) -> None:
        """There is no socket."""


@dataclass(frozen=True)
class End:
    """How a request ended: the kind of failure or '', and what was counted."""

    kind: str
    chunks: int
    tokens: int


def heard(pieces: list[bytes], wanted: int, lost: Exception | None = None) -> End:
    """What a connection makes of these bytes and the end of the connection after them."""
    ends: list[tuple[Exchange, Failure | None]] = []
    connection = Connection(lambda _c, exchange, why: ends.append((exchange, why)), True)
    wire = Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]
    exchange = Exchange(0, Answer(wanted), 0.0, 0.0)
    connection.send(exchange, b"")
    for piece in pieces:
        if wire.closed:
            break
        connection.data_received(piece)
    if not wire.closed:
        connection.eof_received()
        connection.connection_lost(lost)
    if len(ends) != 1:
        raise AssertionError(f"ended {len(ends)} times")
    why, answer = ends[0][1], exchange.answer
    if why is None and not (answer.done and answer.completion_tokens == wanted and answer.times):
        raise AssertionError("good without [DONE], tokens or chunks")
    return End(why.kind if why else "", len(answer.times), answer.completion_tokens)


def answer_events(random: Random, wanted: int) -> list[str]:
    """The JSON of a right answer's events."""
    events, left = [], wanted
    usage_everywhere = random.random() < 0.3
    if random.random() < 0.2:
        events.append(json.dumps({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    while left:
        many = random.randint(1, left)
        left -= many
        text = random.choice(["a", "", "\u2028", '"\\', "é😀", "data: x", "x" * 300])
        choice: dict[str, Any] = random.choice([{"text": text}, {"delta": {"content": text}}])
        choice["finish_reason"] = None if left else "length"
        body: dict[str, Any] = {"choices": [choice]}
        if usage_everywhere:
            body["usage"] = {"prompt_tokens": 1, "completion_tokens": wanted - left}
        events.append(json.dumps(body, ensure_ascii=random.random() < 0.5))
    usage = {"prompt_tokens": 1, "completion_tokens": wanted}
    return [*events, json.dumps({"choices": [], "usage": usage}), "[DONE]"]


def dressed(random: Random, events: list[str]) -> bytes:
    """Events as a stream: any line end, comments, other fields, with or without blanks."""
    end = random.choice(LINE_ENDS)
    lines = []
    for event in events:
        for _ in range(random.randint(0, 2) if random.random() < 0.3 else 0):
            lines.append(random.choice(EXTRAS) + end)
        lines.append(f"data:{random.choice(['', ' '])}{event}{end}{end}")
    return "".join(lines).encode()


def response(random: Random, body: bytes) -> bytes:
    """A whole HTTP response: chunked anywhere, of a length, or until the connection's end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    framing = random.choice(["chunked", "length", "close"])
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if framing == "close":
        return head + b"Connection: close\r\n\r\n" + body
    parts = cut(random, body, random.randint(1, 12))
    framed = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts if p)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def cut(random: Random, data: bytes, count: int) -> list[bytes]:
    """The data in at most so many pieces."""
    places = sorted({0, len(data), *(random.randint(0, len(data)) for _ in range(count - 1))})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def damaged(random: Random, data: bytes) -> bytes:
    """The same with something wrong."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, max(len(changed) - 1, 0))
        match random.randint(0, 5):
            case 0 if changed:
                changed[at] = random.randint(0, 255)
            case 1:
                del changed[at : at + random.randint(1, 40)]
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = random.choice(FOREIGN)
            case 4:
                changed[at:at] = changed[at : at + random.randint(1, 200)]
            case _:
                changed[at:at] = bytes(random.randbytes(random.randint(1, 20)))
    return bytes(changed)


def one_right(random: Random) -> End:
    """Property 1 on one drawn answer."""
    wanted = random.randint(1, 12)
    events = answer_events(random, wanted)
    data = response(random, dressed(random, events))
    found = heard(cut(random, data, random.choice([1, 2, 5, 40, len(data)])), wanted)
    if found.kind or found.tokens != wanted:
        raise AssertionError(f"a right answer became {found}: {data!r}")
    return found


def one_damaged(random: Random) -> End:
    """Property 2 on one drawn answer."""
    wanted = random.randint(1, 6)
    data = response(random, dressed(random, answer_events(random, wanted)))
    data = damaged(random, data)
    lost = random.choice([None, ConnectionResetError("reset")])
    whole = heard([data] if data else [], wanted, lost)
    for count in (2, 7, len(data)):
        found = heard(cut(random, data, count), wanted, lost)
        if (found.kind == "") != (whole.kind == ""):
            raise AssertionError(f"cut into {count}: {found}, whole: {whole}: {data!r}")
    return whole


def main() -> int:
    """Fuzzes for a while; 1 with the seed and the bytes of the first fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    until, tried = time.monotonic() + given.minutes * 60, 0
    seen: Counter[str] = Counter()
    while time.monotonic() < until:
        seed = f"{given.seed}/{tried}"
        for one in (one_right, one_damaged):
            try:
                seen[one(Random(seed)).kind or "good"] += 1
            except AssertionError as fault:
                sys.stdout.write(f"fault with seed {seed} in {one.__name__}: {fault}\n")
                return 1
        tried += 1
    sys.stdout.write(f"{2 * tried} answers, no fault; ends: {dict(seen.most_common())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
