"""The side channel: where decode fetches a prefilled request's state, over real TCP.

One line asks and one line answers: `GET id` -> `OK state tokens`, `PUT id state tokens` -> `OK`,
anything wrong -> `ERR reason`. Ids are percent-encoded. A fetched state is gone, as blocks are
freed after a transfer; one that nobody fetches within the lease expires.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from jobs.rehearsal.model import State

GREETING = b"\xff\0\0\0\0\0\0\0\x01\x7f"
"""What a ZeroMQ socket, such as NIXL's listener, says unasked to whoever connects."""

LEASE_S = 30.0
TIMEOUT_S = 5.0
BACKLOG = 4096


class TransferError(Exception):
    """A state that could not be fetched; the text names the address and the request."""


@dataclass(frozen=True, slots=True)
class Held:
    """A prefilled request's state, until when it is kept, how many tokens it covers, and what to
    call once it is fetched or expired."""

    state: State
    tokens: int
    until: float
    gone: Callable[[], None]


@dataclass(slots=True)
class StateStore:
    """States that wait to be fetched from one rank."""

    lease_s: float = LEASE_S
    held: dict[str, Held] = field(default_factory=dict)
    expired: int = 0

    def put(
        self, request_id: str, state: State, tokens: int, gone: Callable[[], None] = lambda: None
    ) -> float:
        """Keeps a state for the lease; when it ends, in time.monotonic() seconds."""
        self.sweep()
        until = time.monotonic() + self.lease_s
        self.held[request_id] = Held(state, tokens, until, gone)
        return until

    def take(self, request_id: str) -> Held | None:
        """The state, once; None when it is unknown, was fetched already, or expired."""
        self.sweep()
        held = self.held.pop(request_id, None)
        if held is not None:
            held.gone()
        return held

    def sweep(self) -> None:
        """Drops and counts what nobody fetched in time (oldest first, so this is short)."""
        now = time.monotonic()
        while self.held:
            oldest = next(iter(self.held))
            if self.held[oldest].until > now:
                return
            self.held.pop(oldest).gone()
            self.expired += 1


async def listen(store: StateStore, host: str, port: int) -> asyncio.Server:
    """A listening side channel of one rank; OSError when the port is taken."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(GREETING)
            line = await asyncio.wait_for(reader.readline(), TIMEOUT_S)
            writer.write(_answer(store, line.decode("ascii", "replace")).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.CancelledError):
            pass  # cancelled when the process ends: asyncio of 3.11 logs an error if it is told
        finally:
            writer.close()

    return await asyncio.start_server(serve, host, port, backlog=BACKLOG)


def _answer(store: StateStore, line: str) -> str:
    match line.split():
        case ["GET", quoted]:
            held = store.take(unquote(quoted))
            if held is None:
                return "ERR unknown, fetched or expired request"
            return f"OK {held.state.to_hex()} {held.tokens}"
        case ["PUT", quoted, state, tokens]:
            try:
                store.put(unquote(quoted), State.from_hex(state), int(tokens))
            except ValueError as error:
                return f"ERR {error}"
            return "OK"
    return "ERR expected GET id or PUT id state tokens"


async def fetch(host: str, port: int, request_id: str) -> tuple[State, int]:
    """The state of a request and how many tokens it covers, from another worker's rank."""
    words = await _ask(host, port, f"GET {quote(request_id, safe='')}")
    try:
        return State.from_hex(words[1]), int(words[2])
    except (IndexError, ValueError) as error:
        raise TransferError(f"side channel {host}:{port} answered {words!r}: {error}") from error


async def deliver(host: str, port: int, request_id: str, state: State, tokens: int) -> None:
    """Hands a state to a rank of this endpoint that lives in another process."""
    await _ask(host, port, f"PUT {quote(request_id, safe='')} {state.to_hex()} {tokens}")


async def _ask(host: str, port: int, line: str) -> list[str]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(line.encode() + b"\n")
                await reader.readexactly(len(GREETING))
                words = (await reader.readline()).decode("ascii", "replace").split()
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise TransferError(
            f"handshake_setup_failed: side channel {host}:{port}: {type(error).__name__}: {error}"
        ) from error
    if not words or words[0] != "OK":
        raise TransferError(f"side channel {host}:{port} refused {line[:80]!r}: {' '.join(words)}")
    return words
