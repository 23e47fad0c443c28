"""Native client and `vllm bench serve` on a real vLLM, prefill and decode apart: the same figures?

    python -m benchmarks.client_real_pair --vllm-python ENGINE/bin/python [--record FILE] [WORD ...]

Starts the deployment of experiment=demo_hybrid (or of other launcher words): two vLLM workers on
CPU, NIXL between them, the router before them. The clients take turns (A B B A ...), every time
with prompts of the same lengths and other bytes, so that no cache helps and no drift favours one.
There is no truth here: a difference is to be held against the spread of each client's own repeats.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.client_requests import machine
from benchmarks.load_client import peers
from benchmarks.load_client.real_pair import Pair, real_pair
from benchmarks.load_client.server import make_prompts, record, table
from jobs.deployment import versions

WORDS = ("experiment=demo_hybrid", "accuracy=none", "canary.enabled=false")
SOUND_IDS = 2000
"""Ids below it are ordinary tokens of every model of the CPU environment."""
CLIENTS = ("native", "vllm bench")
Vllm = Callable[[str, Path, int, str], peers.Cost]


def main() -> None:
    """All concurrencies, both clients in turn, and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("words", nargs="*", default=list(WORDS), help="launcher words")
    add("--vllm-python", type=Path, required=True)
    add("--url", help="a router that is up already, instead of starting the deployment")
    add("--decode", help="with it: the decode worker's URL")
    add("--model", help="with it: the served name")
    add("--concurrency", type=int, nargs="+", default=[1, 2, 4])
    add("--repeats", type=int, default=4, help="of each client; even: as many first as second")
    add("--requests", type=int, default=6, help="per stream of concurrency")
    add("--input", type=int, default=128)
    add("--output", type=int, default=32)
    add("--record", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there = Pair(url=given.url, model=given.model, decode=given.decode)
        deployed = nullcontext(there) if given.url else real_pair(given.words, folder)
        with deployed as pair, peers.vllm_bench_kept(given.vllm_python) as vllm:
            before = pair.moved_bytes()
            kept = measured(given, pair, folder, vllm)
            moved = pair.moved_bytes() - before
    rows = [row(kept, streams, f) for streams in given.concurrency for f in kept[0]["figures"]]
    header = ["streams", "figure", *CLIENTS, "difference", "native's spread", "vllm bench's spread"]
    print(table(header, rows))  # noqa: T201
    about = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": machine(),
        "versions": versions(str(given.vllm_python.parent.parent)),
        "deployment": given.words,
        "kv_bytes_over_nixl": moved,
        "input_tokens": given.input,
        "output_tokens": given.output,
    }
    print(about)  # noqa: T201
    record(given.record, about | {"runs": kept})


def measured(given: argparse.Namespace, pair: Pair, folder: Path, vllm: Vllm) -> list[dict]:
    """Every run that counts; the first of each client, the warm-up, does not."""
    order = [
        (streams, turn, who)
        for streams in given.concurrency
        for turn in range(given.repeats)
        for who in (CLIENTS if turn % 2 == 0 else CLIENTS[::-1])
    ]
    kept = []
    warm_up = [(max(given.concurrency), 0, who) for who in CLIENTS]
    for seed, (streams, turn, who) in enumerate([*warm_up, *order]):
        path = folder / f"{seed}.prompts"
        count = given.requests * streams
        make_prompts(path, count, given.input, given.output, SOUND_IDS, seed)
        if who == CLIENTS[0]:
            cost = peers.native(pair.url, path, streams, 1, model=pair.model)
        else:
            cost = vllm(pair.url, path, streams, pair.model)
        if seed >= len(warm_up):
            told = {"streams": streams, "client": who, "repeat": turn}
            kept.append(told | {"failed": cost.failed, "figures": figures_of(cost)})
            print(kept[-1], flush=True)  # noqa: T201
    return kept


def figures_of(cost: peers.Cost) -> dict[str, float]:
    """What a client says: ms, and tokens a second."""
    values = {"TTFT": cost.ttft_s, "TPOT": cost.tpot_s, "ITL": cost.gaps_s, "E2E": cost.e2el_s}
    found = {}
    for name, array in values.items():
        found[f"{name} mean ms"] = float(np.mean(array) * 1e3)
        found[f"{name} median ms"] = float(np.median(array) * 1e3)
    return found | {"output tokens/s": cost.more["output_throughput"]}


def row(kept: list[dict], streams: int, figure: str) -> list[str]:
    """A line of the table: medians over the repeats, and each client's own spread (max - min)."""
    of = {who: values(kept, streams, who, figure) for who in CLIENTS}
    ours, theirs = (statistics.median(of[who]) for who in CLIENTS)
    words = [f"{ours:.2f}", f"{theirs:.2f}", f"{(ours / theirs - 1) * 100:+.1f} %"]
    words += [f"{(max(v) - min(v)) / statistics.median(v) * 100:.1f} %" for v in of.values()]
    return [str(streams), figure, *words]


def values(kept: list[dict], streams: int, who: str, figure: str) -> list[float]:
    """One figure of one client over its repeats."""
    return [
        run["figures"][figure] for run in kept if (run["streams"], run["client"]) == (streams, who)
    ]


if __name__ == "__main__":
    main()
