"""What a request costs the client: CPU seconds per 1,000, wall and memory, beside its peers.

    python -m benchmarks.client_requests --vllm-python ENGINE/bin/python [--record FILE]
        [--vllm ENGINE/bin/vllm] [--aiperf VENV/bin/aiperf --tokenizer DIR]

The fake server answers 11 chunks after 100 ms, 20 ms apart; prompts have 7,373 tokens, as ids.
Whole programs (--vllm, --aiperf) send texts of 7,373 words: what they make of them themselves is
not in the CPU seconds (benchmarks/load_client/commands.py).
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.load_client import commands, peers
from benchmarks.load_client.server import build, fake_server, make_prompts, record, table

TOKENS, ANSWER = 7373, 11
DELAYS = ("ttft_us=100000", "itl_us=20000", f"prompt_tokens={TOKENS}", f"tokens={ANSWER}")


def main() -> None:
    """All clients at all concurrencies, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--concurrency", type=int, nargs="+", default=[512, 2048, 5120])
    add("--requests", type=int, default=10240)
    add("--processes", type=int, nargs="+", default=[1, 2])
    add("--vllm-python", type=Path, help="Python that has vLLM")
    add("--vllm-function", type=Path, help="vllm/benchmarks/lib/endpoint_request_func.py alone")
    commands.add_options(parser)
    add("--record", type=Path)
    given = parser.parse_args()
    rows, kept = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        path = make_prompts(folder / "x.prompts", given.requests, TOKENS, ANSWER)
        programs = commands.chosen(given, folder, TOKENS, ANSWER)
        for concurrency in given.concurrency:
            costs = []
            whole = [part(run, concurrency, given.requests) for run in programs]
            for client in clients(given, path, concurrency) + whole:
                with fake_server(program, folder, *DELAYS) as fake:
                    cost = client(fake.url)
                peers.rested()
                cost = commands.in_span(cost, fake)
                costs.append(cost)
                kept.append(told(concurrency, cost, fake.cpu_s))
                print(kept[-1], flush=True)  # noqa: T201
                record(given.record, {"machine": machine(), "runs": kept})
            base = next((c for c in costs if c.client.startswith("vllm")), costs[-1])
            for cost in costs:
                rows.append(row(concurrency, cost, cost.per_1000() / base.per_1000()))
    header = ["concurrency", "client", "CPU s / 1,000", "of vLLM's", "wall s", "RSS MB", "failed"]
    print(table(header, rows))  # noqa: T201


def clients(given: argparse.Namespace, path: Path, concurrency: int) -> list:
    """A function of the server's URL for each client."""
    found = [lambda url, n=n: peers.native(url, path, concurrency, n) for n in given.processes]
    found.append(lambda url: peers.aiohttp(url, path, concurrency))
    if given.vllm_function:
        found.append(lambda url: peers.vllm_function(given.vllm_function, url, path, concurrency))
    if given.vllm_python:
        found.append(lambda url: peers.vllm_bench(given.vllm_python, url, path, concurrency))
    return found


def part(run: commands.Run, concurrency: int, requests: int) -> Callable[[str], peers.Cost]:
    """A whole program as a function of the server's URL."""
    return lambda url: run(url, concurrency, requests)


def told(concurrency: int, cost: peers.Cost, server_cpu_s: float) -> dict:
    """What is kept of a run."""
    return {
        "concurrency": concurrency,
        "client": cost.client,
        "requests": cost.completed + cost.failed,
        "failed": cost.failed,
        "cpu_s_per_1000": round(cost.per_1000(), 4),
        "wall_s": round(cost.wall_s, 3),
        "rss_mb": round(cost.rss_mb, 1),
        "server_cpu_s": server_cpu_s,
        "median_ttft_ms": round(float(np.median(cost.ttft_s)) * 1e3, 2),
        **cost.more,
    }


def row(concurrency: int, cost: peers.Cost, ratio: float) -> list[str]:
    """A line of the table."""
    numbers = [f"{cost.per_1000():.3f}", f"{ratio:.3f}", f"{cost.wall_s:.1f}"]
    return [str(concurrency), cost.client, *numbers, f"{cost.rss_mb:.0f}", str(cost.failed)]


def machine() -> str:
    """Cores and system of this machine."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.release()}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
