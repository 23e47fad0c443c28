"""Which transport carries the load client: CPU seconds per 1,000 requests of each, in one run.

    python -m benchmarks.client_transport [--record FILE]

Bare clients without any check, so that what differs is the library; and the native client itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.client_requests import DELAYS, TOKENS, machine
from benchmarks.load_client import peers
from benchmarks.load_client.server import build, fake_server, make_prompts, record, table

BARE = (("asyncio", "httptools"), ("uvloop", "httptools"), ("uvloop", "none"))


def main() -> None:
    """Every transport, several times, in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--concurrency", type=int, default=512)
    add("--requests", type=int, default=4096)
    add("--answer", type=int, default=11)
    add("--repeats", type=int, default=3)
    add("--record", type=Path)
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        path = make_prompts(folder / "x.prompts", given.requests, TOKENS, given.answer)
        for _ in range(given.repeats):
            for label, client in clients(path, given.concurrency):
                with fake_server(program, folder, *DELAYS) as fake:
                    cost = client(fake.url)
                peers.rested()
                found.setdefault(label, []).append(cost.per_1000())
    rows = [[name, f"{np.median(v):.3f}", *(f"{x:.3f}" for x in v)] for name, v in found.items()]
    print(table(["transport", "CPU s / 1,000", *["run"] * given.repeats], rows))  # noqa: T201
    about = {"concurrency": given.concurrency, "chunks": given.answer}
    record(given.record, {"machine": machine(), **about, "cpu_s_per_1000": found})


def clients(path: Path, concurrency: int) -> list:
    """Label and a function of the server's URL."""
    found = [("aiohttp, uvloop", lambda url: peers.aiohttp(url, path, concurrency))]
    for loop, parser in BARE:
        found.append((f"Protocol, {loop}, {parser}", bare(loop, parser, path, concurrency)))
    found.append(("native client", lambda url: peers.native(url, path, concurrency, 1)))
    return found


def bare(loop: str, parser: str, path: Path, concurrency: int) -> object:
    """A bare Protocol client."""

    def run(url: str) -> peers.Cost:
        words = (loop, parser, url, str(path), str(concurrency))
        return peers.other("bare", Path(sys.executable), "protocol_client.py", *words)

    return run


if __name__ == "__main__":
    main()
