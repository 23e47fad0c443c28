"""Servers that say exactly what a test wants, and the native client's streams against them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jobs.clients.conversations import turns_of
from jobs.clients.load import Load
from jobs.clients.merged import Measured, read_all
from jobs.clients.streams import Streams
from jobs.clients.target import find_target
from jobs.prompts.pieces import id_pieces
from jobs.prompts.random_source import random_requests
from jobs.prompts.reader import PromptFile, write_prompt_file
from jobs.prompts.spec import Spec
from tests.patience import PATIENCE_S
from tests.rehearsal_process import KEY, MODEL

Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
KEPT = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b'data: {"choices":[{"index":0,"text":" a"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE = CHUNK + CHUNK + USAGE + DONE


def framed(*pieces: bytes) -> bytes:
    """Each piece as one chunk of HTTP's chunked coding, and its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (*pieces, b""))


def prompt_file(path: Path, count: int, **spec: Any) -> PromptFile:
    """Requests of 10 tokens in and 2 out."""
    given: dict[str, Any] = {"input_range": (10, 10), "output_range": (2, 2), "seed": 1}
    form = spec.pop("form", "ids")
    made = Spec(count=count, **(given | spec))
    pieces = replace(id_pieces(1000), form=form)
    write_prompt_file(path, random_requests(made, pieces), pieces, {})
    return PromptFile.open(path)


def load(base_url: str, **changed: Any) -> Load:
    """A closed loop of two streams."""
    given: dict[str, Any] = {"base_url": base_url, "model": MODEL, "prompts": "", "concurrency": 2}
    return Load(**(given | {"timeout_s": 60.0, "stall_timeout_s": 60.0} | changed))


def saying(*pieces: bytes, pause_s: float = 0.0) -> Reply:
    """One request read, then these pieces written one by one, then the end of the connection."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return reply


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length"))
    return head, await reader.readexactly(length)


def measured_against(
    reply: Reply, prompts: PromptFile, requests: int, folder: Path, **changed: Any
) -> tuple[Measured, Streams]:
    """Requests of a prompt file sent to a server that handles each connection by `reply`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            try:
                await reply(reader, writer)
                await writer.drain()
            except (ConnectionError, asyncio.IncompleteReadError):
                return

    async def go() -> Streams:
        server = await asyncio.start_server(serve, "127.0.0.10", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            wanted = load(f"http://127.0.0.10:{port}", **changed)
            return await asyncio.wait_for(sent_all(wanted, prompts, requests), PATIENCE_S)
        finally:
            server.close()

    streams = asyncio.run(go())
    return written(streams, folder), streams


async def sent_all(wanted: Load, prompts: PromptFile, requests: int) -> Streams:
    """The streams after the first requests of a file, in a closed loop."""
    streams = Streams(await find_target(wanted, prompts, KEY))
    await streams.open(wanted.concurrency)
    jobs = turns_of(prompts, range(requests))
    numbers = iter(range(len(jobs)))
    await streams.closed_loop(jobs, lambda: next(numbers, None))
    return streams


def written(streams: Streams, folder: Path) -> Measured:
    """The streams' records as the client reads them back."""
    path = folder / "0.npz"
    streams.log.write(path, lags=np.zeros(1, np.float32), load=np.zeros(5))
    return read_all([path])
