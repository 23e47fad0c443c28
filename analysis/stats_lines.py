"""vLLM's own statistics lines in a log, for runs that sampled nothing.

    Engine 000: Avg prompt throughput: 0.3 tokens/s, Avg generation throughput: 7.9 tokens/s,
    Running: 1 reqs, Waiting: 0 reqs, [Deferred: ..., KV fetch: ..., Preemptions: ...,]
    GPU KV cache usage: 0.6%, ...

One a rank every VLLM_LOG_STATS_INTERVAL seconds (10), none while an engine idles, none with
several API servers (vLLM 0.26 to 0.33, v1/metrics/loggers.py). Prompt throughput counts computed
tokens only, preemptions are since the line before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from analysis.startup_log import ANSI, stamp
from jobs.stations import Look

TAIL_BYTES = 32 * 1024 * 1024
"""Of a log, from its end."""

SIGN = b"Avg prompt throughput"
HEAD = re.compile(r"Engine (\d+): |(\d+) Engines Aggregated: ")
FIELDS = {
    "computed_tps": re.compile(r"Avg prompt throughput: ([\d.]+) tokens/s"),
    "generation_tps": re.compile(r"Avg generation throughput: ([\d.]+) tokens/s"),
    "running": re.compile(r"Running: (\d+) reqs"),
    "waiting": re.compile(r"Waiting: (\d+) reqs"),
    "waiting_deferred": re.compile(r"Deferred: (\d+) reqs"),
    "fetch_waiting": re.compile(r"KV fetch: (\d+) waiting to start"),
    "fetching": re.compile(r"KV fetch: .*?(\d+) in progress"),
    "fetched_waiting": re.compile(r"KV fetch: .*?(\d+) completed waiting"),
    "kv_usage": re.compile(r"KV cache usage: ([\d.]+)%"),
}
PREEMPTIONS = re.compile(r"Preemptions: (\d+)")


def read_stats(log: Path, process: str, role: str, year: int, shift_s: float) -> list[Look]:
    """Every statistics line of a log; empty where it cannot be read."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - TAIL_BYTES))
            lines = [line for line in stream.read().splitlines() if SIGN in line]
    except OSError:
        return []
    texts = (ANSI.sub("", line.decode("utf-8", "replace")) for line in lines)
    return list(stats_looks(texts, process, role, year, shift_s))


def stats_looks(
    lines: Iterable[str], process: str, role: str, year: int, shift_s: float
) -> Iterator[Look]:
    """The lines as looks, t in seconds since 1970. A sum over engines counts as rank 0."""
    thrown: dict[int, float] = {}
    for line in lines:
        t, head = stamp(line, year), HEAD.search(line)
        if t is None or head is None:
            continue
        rank = int(head[1] or 0)
        numbers: dict[str, float | None] = {}
        for word, words in FIELDS.items():
            if found := words.search(line):
                numbers[word] = float(found[1]) / (100 if word == "kv_usage" else 1)
        if found := PREEMPTIONS.search(line):
            thrown[rank] = thrown.get(rank, 0.0) + float(found[1])
        numbers["preemptions"] = thrown.get(rank, 0.0)
        numbers.setdefault("fetching", 0.0)
        yield Look(t + shift_s, process, role, rank, numbers)
