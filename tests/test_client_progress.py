"""What the native client tells of its progress, from its processes' shared memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from jobs.clients.gate import Gate
from jobs.clients.measuring import Outcome, measure
from jobs.progress import Progress, read_progress
from tests.patience import PATIENCE_S
from tests.stream_server import KEPT, WHOLE, framed, load, prompt_file, request_of

WARMUP = 4


def test_what_is_measured_begins_at_nothing_done(tmp_path: Path) -> None:
    """The server answers the warm-up, and the rest only once its first progress was told."""
    prompts = prompt_file(tmp_path / "x.prompts", 8, warmup=WARMUP)
    gate = Gate(tmp_path, "c4")
    (tmp_path / "c4.go").touch()

    async def first_told() -> Progress:
        while (told := read_progress(gate.progress)) is None or told.stage != "measured":
            await asyncio.sleep(0.01)
        return told

    async def go() -> tuple[Progress, Outcome]:
        come, told = 0, asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal come
            try:
                while True:
                    await request_of(reader)
                    come += 1
                    if come > WARMUP:
                        await told.wait()
                    writer.write(KEPT + framed(WHOLE))
            except (ConnectionError, asyncio.IncompleteReadError):
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.10", 0)
        port = server.sockets[0].getsockname()[1]
        sent = load(f"http://127.0.0.10:{port}", prompts=str(tmp_path / "x.prompts"))
        async with asyncio.timeout(PATIENCE_S):
            ended = asyncio.create_task(measure(replace(sent, concurrency=4), prompts, 1, gate))
            first = await first_told()
            told.set()
            outcome = await ended
        server.close()
        return first, outcome

    first, outcome = asyncio.run(go())
    assert (first.done, first.failed, first.tokens, first.total) == (0, 0, 0.0, 8)
    assert [one["requests"] for one in outcome.warmup] == [WARMUP]
    assert int(outcome.measured.good.sum()) == 8
