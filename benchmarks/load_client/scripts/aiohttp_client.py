"""The least an aiohttp client does: python aiohttp_client.py URL PROMPTS CONCURRENCY

On uvloop, JSON by orjson, no error handling: what is left is aiohttp itself.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import aiohttp
import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).parents[3]))
from peer_result import raise_files, tell

from jobs.clients.bodies import Bodies
from jobs.clients.load import Load
from jobs.prompts.reader import PromptFile

HEADERS = {"Content-Type": "application/json"}


async def send(url: str, path: str, concurrency: int) -> list:
    """All requests in a closed loop; CPU and wall seconds, and a row a request."""
    prompts = PromptFile.open(Path(path))
    load = Load(base_url=url, model="fake", prompts=path, concurrency=concurrency)
    bodies = Bodies(load, prompts, None)
    waiting = iter(range(prompts.warmup, len(prompts)))
    rows: list[tuple[float, float, int]] = []
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def stream() -> None:
            for i in waiting:
                body = bodies.request(i, int(prompts.output_tokens[i])).split(b"\r\n\r\n", 1)[1]
                sent, times, made, rest = time.monotonic(), [], 0, b""
                async with session.post(
                    f"{url}/v1/completions", data=body, headers=HEADERS
                ) as response:
                    async for piece in response.content.iter_any():
                        *events, rest = (rest + piece).split(b"\n\n")
                        for event in events:
                            if event == b"data: [DONE]":
                                continue
                            data = orjson.loads(event[6:])
                            if data["choices"]:
                                times.append(time.monotonic())
                            elif data["usage"]:
                                made = data["usage"]["completion_tokens"]
                rows.append((times[0] - sent, times[-1] - sent, made))

        begun = time.process_time(), time.monotonic()
        await asyncio.gather(*(stream() for _ in range(concurrency)))
        return [time.process_time() - begun[0], time.monotonic() - begun[1], rows]


def main(url: str, path: str, concurrency: int) -> None:
    """One run."""
    raise_files()
    cpu, wall, rows = uvloop.run(send(url, path, concurrency))
    tell(cpu, wall, 0, rows)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
