"""One streamed completion: sent, timed chunk by chunk, and either good or failed with a kind."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from dataclasses import dataclass

import aiohttp

from jobs.clients.random_prompts import Prompt
from jobs.clients.sse import EventReader

PATH = "/v1/completions"


class FailedRequestError(Exception):
    """A request that does not count; `kind` is a short word for counting."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Sent:
    """A good request: when it was sent, and when each chunk with a choice came."""

    at: float
    chunks: array[float]


@dataclass(slots=True)
class _Stream:
    """What a stream has shown so far."""

    chunks: array[float]
    completion_tokens: int | None = None
    done: bool = False

    def take(self, data: bytes) -> None:
        """One event's data; FailedRequestError when it is an error or no JSON."""
        if data == b"[DONE]":
            self.done = True
            return
        try:
            body = json.loads(data)
        except ValueError as error:
            raise FailedRequestError("bad_json", f"{error}: {data[:200]!r}") from error
        if not isinstance(body, dict):
            raise FailedRequestError("bad_json", f"event is no object: {data[:200]!r}")
        if body.get("error"):
            raise FailedRequestError("stream_error", str(body["error"]))
        if body.get("choices"):
            self.chunks.append(time.perf_counter())
        usage = body.get("usage")
        if isinstance(usage, dict):
            self.completion_tokens = usage.get("completion_tokens")

    def check(self, wanted: int) -> None:
        """FailedRequestError unless the whole answer came, and says that it has `wanted` tokens."""
        if not self.done:
            raise FailedRequestError("no_done", f"stream ended after {len(self.chunks)} chunks")
        if self.completion_tokens is None or not self.chunks:
            raise FailedRequestError("no_usage", f"{len(self.chunks)} chunks, no usage")
        if self.completion_tokens != wanted:
            raise FailedRequestError(
                "token_count", f"{self.completion_tokens} tokens, {wanted} wanted"
            )


def body_of(prompt: Prompt, model: str) -> bytes:
    """The request's JSON; ids are spliced in as text, which is much cheaper than json.dumps."""
    rest = {
        "max_tokens": prompt.output_tokens,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text = f'{{"model":{json.dumps(model)},"prompt":[{prompt.ids()}],{json.dumps(rest)[1:]}'
    return text.encode()


async def complete(session: aiohttp.ClientSession, model: str, prompt: Prompt) -> Sent:
    """Sends one prompt and reads its whole answer.

    FailedRequestError for every way this can go wrong; the session's timeouts bound each of them.
    """
    body = body_of(prompt, model)
    stream = _Stream(array("d"))
    events = EventReader()
    sent = time.perf_counter()
    try:
        async with session.post(PATH, data=body, allow_redirects=False) as response:
            if response.status != 200:
                text = (await response.content.read(300)).decode("utf-8", "replace")
                raise FailedRequestError(f"http_{response.status}", text)
            async for piece in response.content.iter_any():
                for data in events.feed(piece):
                    stream.take(data)
            for data in events.close():
                stream.take(data)
    except aiohttp.ClientError as error:
        raise FailedRequestError(_kind(error), f"{type(error).__name__}: {error}") from error
    except (TimeoutError, OSError) as error:
        kind = "timeout_total" if isinstance(error, TimeoutError) else "connection"
        raise FailedRequestError(kind, f"{type(error).__name__}: {error}") from error
    stream.check(prompt.output_tokens)
    return Sent(sent, stream.chunks)


def _kind(error: aiohttp.ClientError) -> str:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return "timeout_connect"
        case aiohttp.ServerTimeoutError():
            return "timeout_read"
        case aiohttp.ClientConnectorError():
            return "connect"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "disconnected"
        case aiohttp.ClientOSError():
            return "connection"
    return "client_error"


def open_session(base_url: str, api_key: str | None, timeout_s: float) -> aiohttp.ClientSession:
    """A session with unlimited, kept connections; every wait in it ends within `timeout_s`."""
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return aiohttp.ClientSession(
        base_url,
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=600),
        timeout=aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=min(30.0, timeout_s), sock_read=timeout_s
        ),
        read_bufsize=2**18,
    )


async def measure_lag(worst: list[float], period_s: float = 0.05) -> None:
    """Runs until cancelled; worst[0] is the longest this event loop was late, in seconds.

    A client that is late itself measures its own delay as the server's.
    """
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(period_s)
        worst[0] = max(worst[0], time.perf_counter() - begun - period_s)
