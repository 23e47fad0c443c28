"""What the client itself adds to TTFT in the first burst, by the number of its processes.

    python -m benchmarks.client_ttft --vllm-python ENGINE/bin/python [--record FILE]
        [--vllm ENGINE/bin/vllm] [--aiperf VENV/bin/aiperf --tokenizer DIR]

5,120 requests of 7,373 tokens go out at once to a server that answers at once; every millisecond
beyond what the server's own log shows is the client's (and the kernel's).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.client_requests import machine
from benchmarks.load_client import commands, peers
from benchmarks.load_client.server import build, fake_server, make_prompts, record, table

TOKENS, ANSWER = 7373, 11


def main() -> None:
    """All clients, each several times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--streams", type=int, default=5120)
    add("--processes", type=int, nargs="+", default=[1, 2])
    add("--repeats", type=int, default=3)
    add("--native-only", action="store_true", help="where cores are too few for the peers")
    add("--vllm-python", type=Path)
    add("--vllm-function", type=Path)
    commands.add_options(parser)
    add("--record", type=Path)
    given = parser.parse_args()
    kept, rows = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        path = make_prompts(folder / "x.prompts", given.streams, TOKENS, ANSWER)
        delays = (f"prompt_tokens={TOKENS}", f"tokens={ANSWER}")
        for label, client in clients(given, path, folder):
            runs = []
            for _ in range(given.repeats):
                with fake_server(program, folder, *delays) as fake:
                    cost = client(fake.url)
                peers.rested()
                cost = commands.in_span(cost, fake)
                runs.append(told(label, cost, fake))
                print(runs[-1], flush=True)  # noqa: T201
            kept += runs
            rows.append(row(label, runs))
    header = [
        "client",
        "median ms",
        "p99 ms",
        "server's own p99 ms",
        "lag p99 ms",
        "first sent to last end s",
    ]
    print(table(header, rows))  # noqa: T201
    record(given.record, {"machine": machine(), "runs": kept})


def clients(given: argparse.Namespace, path: Path, folder: Path) -> list:
    """Label and a function of the server's URL for each client."""
    found = [
        (f"native, {n}", lambda url, n=n: peers.native(url, path, given.streams, n))
        for n in given.processes
    ]
    if given.native_only:
        return found
    found.append(("aiohttp + orjson, minimal", lambda url: peers.aiohttp(url, path, given.streams)))
    if given.vllm_function:
        use = given.vllm_function
        found.append(
            ("vllm bench's function", lambda u: peers.vllm_function(use, u, path, given.streams))
        )
    if given.vllm_python:
        python = given.vllm_python
        found.append(("vllm bench", lambda u: peers.vllm_bench(python, u, path, given.streams)))
    for run in commands.chosen(given, folder, TOKENS, ANSWER):
        found.append((run.label, lambda u, run=run: run(u, given.streams, given.streams)))
    return found


def told(label: str, cost: peers.Cost, fake: object) -> dict:
    """Milliseconds of one run."""
    server = fake.truth[:, 2] - fake.truth[:, 0]
    return {
        "client": label,
        "failed": cost.failed,
        "ttft_median_ms": float(np.median(cost.ttft_s) * 1e3),
        "ttft_p99_ms": float(np.percentile(cost.ttft_s, 99) * 1e3),
        "server_first_byte_to_first_event_median_ms": float(np.median(server) * 1e3),
        "server_first_byte_to_first_event_p99_ms": float(np.percentile(server, 99) * 1e3),
        "wall_s": cost.wall_s,
        "cpu_s": cost.cpu_s,
        "server_cpu_s": fake.cpu_s,
        "rss_mb": cost.rss_mb,
        **cost.more,
    }


def row(label: str, runs: list[dict]) -> list[str]:
    """The median of the repeats."""

    def middle(key: str) -> str:
        values = [run[key] for run in runs if run.get(key) is not None]
        return f"{np.median(values):.1f}" if values else "-"

    keys = ("ttft_median_ms", "ttft_p99_ms", "server_first_byte_to_first_event_p99_ms")
    return [label, *map(middle, keys), middle("client_loop_lag_p99_ms"), middle("wall_s")]


if __name__ == "__main__":
    main()
