"""What looking at 72 metrics pages costs the driver, whether it keeps up, what its files weigh.

    python benchmarks/sampling.py [--seconds 20] [--pages 72]

One process serves the pages: vLLM's names, with as many histogram lines as vLLM 0.32 has (about
600 lines, 60 KB, for one rank). This one samples them as the driver does. Prints CPU and memory of
the sampling process, and the time of reading one page beside prometheus_client's parser where that
is installed (vLLM's own environment has it: run this with its Python and PYTHONPATH=.).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from jobs.engines.vllm_series import ENGINE_SERIES
from jobs.events import Journal
from jobs.probing import Http
from jobs.rehearsal.exposition import metrics_text
from jobs.rehearsal.ranks import Rank
from jobs.sampling import EACH_S, Sampler, Target
from jobs.series_page import SeriesPage

HOST = "127.0.0.1"
FAMILIES, BUCKETS = 18, 30
READS = 200


def page_text() -> str:
    """A page of one rank, as long as vLLM's."""
    lines = []
    for family in range(FAMILIES):
        name = f"vllm:family{family}_seconds"
        lines.append(f"# TYPE {name} histogram")
        labels = ",".join(('engine="0"', 'model_name="nvidia/Qwen3.5-397B-A17B-NVFP4"'))
        lines += [f'{name}_bucket{{{labels},le="{b / 10}"}} 7.0' for b in range(BUCKETS)]
    return metrics_text([Rank(0, HOST, None, None)], "m", "decode", "v") + "\n".join(lines) + "\n"


def serve(port: Any) -> None:
    """Serves the page under any path until killed."""

    async def run() -> None:
        body = page_text()

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(text=body)

        app = web.Application()
        app.router.add_get("/{any:.*}", metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def read_ms(parse: Any) -> float:
    """Milliseconds of CPU to read one page."""
    text, begun = page_text(), time.process_time()
    for _ in range(READS):
        parse(text)
    return 1000 * (time.process_time() - begun) / READS


async def sample(port: int, pages: int, seconds: float, folder: Path) -> tuple[float, int]:
    """(CPU share of one core, looks) while sampling every second."""
    page = SeriesPage(ENGINE_SERIES)
    targets = [
        Target(f"decode{n}", "decode", f"http://{HOST}:{port}/{n}/metrics", page, [0])
        for n in range(pages)
    ]
    async with Http("key") as http:
        sampler = Sampler(targets, 1.0, folder, http, Journal(folder / "events.jsonl"))
        async with sampler.sampling():
            await asyncio.sleep(2.0)
            begun, before = time.monotonic(), time.process_time()
            await asyncio.sleep(seconds)
            share = (time.process_time() - before) / (time.monotonic() - begun)
    return share, sum(target.looks for target in targets)


def main() -> int:
    """Runs once and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pages", type=int, default=72)
    options = parser.parse_args()
    page = SeriesPage(ENGINE_SERIES)
    ours, text = read_ms(page.read), page_text()
    size = f"{len(text.splitlines())} lines, {len(text) / 1e3:.0f} KB"
    told = f"reading one page ({size}): {ours:.2f} ms"
    if importlib.util.find_spec("prometheus_client"):
        parser_module = importlib.import_module("prometheus_client.parser")
        theirs = read_ms(lambda text: list(parser_module.text_string_to_metric_families(text)))
        told += f", prometheus_client {theirs:.2f} ms: 1/{theirs / ours:.1f} of its time"
    sys.stdout.write(f"{told}\n")
    port: Any = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        share, looks = asyncio.run(sample(port.get(), options.pages, options.seconds, folder))
        written = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
    server.terminate()
    hours = looks / options.pages / 3600
    every = options.pages * (options.seconds + 2.0) / looks
    asked = max(1.0, EACH_S * options.pages)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        f"{options.pages} pages, each every {every:.2f} s ({asked:.2f} s asked for): "
        f"{100 * share:.1f} % of one core, {peak:.0f} MB at most, {looks} looks; "
        f"files {written / options.pages / hours / 1e6:.2f} MB an hour and process\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
