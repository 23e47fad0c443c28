"""The least an asyncio.Protocol does: python protocol_client.py LOOP PARSER URL PROMPTS CONCURRENCY

LOOP is uvloop or asyncio. PARSER is httptools, or none: the bytes are searched for events without
regard to HTTP, which is what a parser of one's own would cost at least (no status, no framing).
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import httptools
import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).parents[3]))
from peer_result import raise_files, tell

from jobs.clients.bodies import Bodies
from jobs.clients.load import Load
from jobs.prompts.reader import PromptFile


class Client(asyncio.Protocol):
    """One stream."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.parser = httptools.HttpResponseParser(self) if run.parse else None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def send(self) -> None:
        """The next request, if there is one."""
        i = next(self.run.waiting, None)
        if i is None:
            self.run.ended()
            return
        self.sent, self.times, self.made, self.rest = time.monotonic(), [], 0, b""
        self.transport.write(self.run.bodies.request(i, int(self.run.prompts.output_tokens[i])))

    def data_received(self, data: bytes) -> None:
        self.at = time.monotonic()
        if self.parser:
            self.parser.feed_data(data)
            return
        self.on_body(data)
        if data.endswith(b"\r\n0\r\n\r\n"):
            self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Some of the events."""
        *events, self.rest = (self.rest + body).split(b"\n\n")
        for event in events:
            text = event[event.find(b"data: ") + 6 :]
            if text == b"[DONE]":
                continue
            data = orjson.loads(text)
            if data["choices"]:
                self.times.append(self.at)
            elif data["usage"]:
                self.made = data["usage"]["completion_tokens"]

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self.run.rows.append((self.times[0] - self.sent, self.times[-1] - self.sent, self.made))
        self.send()


class Run:
    """All streams."""

    def __init__(self, parse: bool, url: str, path: str, concurrency: int) -> None:
        self.parse, self.url, self.concurrency = parse, url, concurrency
        self.prompts = PromptFile.open(Path(path))
        load = Load(base_url=url, model="fake", prompts=path, concurrency=concurrency)
        self.bodies = Bodies(load, self.prompts, None)
        self.waiting = iter(range(self.prompts.warmup, len(self.prompts)))
        self.rows: list[tuple[float, float, int]] = []
        self.left = concurrency

    def ended(self) -> None:
        """One stream has nothing more to send."""
        self.left -= 1
        if not self.left:
            self.over.set()

    async def go(self) -> tuple[float, float]:
        """CPU and wall seconds."""
        loop = asyncio.get_running_loop()
        self.over = asyncio.Event()
        host, port = self.url.removeprefix("http://").split(":")
        clients = [
            (await loop.create_connection(lambda: Client(self), host, int(port)))[1]
            for _ in range(self.concurrency)
        ]
        begun = time.process_time(), time.monotonic()
        for number, client in enumerate(clients):
            client.send()
            if number % 8 == 7:
                await asyncio.sleep(0)
        await self.over.wait()
        return time.process_time() - begun[0], time.monotonic() - begun[1]


def main(loop: str, parser: str, url: str, path: str, concurrency: int) -> None:
    """One run."""
    raise_files()
    run = Run(parser == "httptools", url, path, concurrency)
    cpu, wall = uvloop.run(run.go()) if loop == "uvloop" else asyncio.run(run.go())
    tell(cpu, wall, 0, run.rows)


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
