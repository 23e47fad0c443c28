"""Result figures of a benchmark client, under `vllm bench serve`'s names and definitions.

TTFT: first chunk with a choice after sending. ITL: between two such chunks, all requests pooled.
E2EL: sending to the last such chunk. TPOT: (E2EL - TTFT) / (output tokens - 1), per request.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (90, 99)


@dataclass(slots=True)
class Tally:
    """What the requests of a run came to; times in seconds, of successful requests only."""

    completed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ttft: array[float] = field(default_factory=lambda: array("d"))
    tpot: array[float] = field(default_factory=lambda: array("d"))
    itl: array[float] = field(default_factory=lambda: array("d"))
    e2el: array[float] = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)
    error_samples: dict[str, str] = field(default_factory=dict)

    def add(self, input_tokens: int, output_tokens: int, sent: float, chunks: array[float]) -> None:
        """One successful request: when it was sent and when each chunk came (at least one).

        A request whose tokens all came in one chunk tells nothing of TPOT and ITL and is left
        out there.
        """
        self.completed += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.ttft.append(chunks[0] - sent)
        self.e2el.append(chunks[-1] - sent)
        if len(chunks) > 1:
            self.itl.extend(np.diff(np.frombuffer(chunks)).tolist())
            if output_tokens > 1:
                self.tpot.append((chunks[-1] - chunks[0]) / (output_tokens - 1))

    def so_far(self) -> tuple[int, int, float]:
        """Requests that have ended, failed ones among them, and tokens of the good ones."""
        failed = self.errors.total()
        return self.completed + failed, failed, float(self.input_tokens + self.output_tokens)

    def fail(self, kind: str, text: str) -> None:
        """One failed request; the first text of each kind is kept."""
        self.errors[kind] += 1
        self.error_samples.setdefault(kind, text[:300])


def figures(tally: Tally, duration_s: float) -> dict[str, Any]:
    """Counts, rates and latencies (ms); None where nothing was measured, never 0."""
    result: dict[str, Any] = {
        "duration": duration_s,
        "completed": tally.completed,
        "failed": tally.errors.total(),
        "total_input_tokens": tally.input_tokens,
        "total_output_tokens": tally.output_tokens,
        "request_throughput": tally.completed / duration_s,
        "request_goodput": None,
        "output_throughput": tally.output_tokens / duration_s,
        "total_token_throughput": (tally.input_tokens + tally.output_tokens) / duration_s,
    }
    for name in ("ttft", "tpot", "itl", "e2el"):
        result |= latency(name, getattr(tally, name))
    return result | {
        "error_counts": dict(tally.errors),
        "error_samples": dict(tally.error_samples),
    }


def latency(name: str, seconds: array[float]) -> dict[str, float | None]:
    """Mean, median, deviation and percentiles in ms, percentiles interpolated linearly."""
    keys = ["mean", "median", "std", *(f"p{p}" for p in PERCENTILES)]
    if not seconds:
        return {f"{key}_{name}_ms": None for key in keys}
    values = np.frombuffer(seconds) * 1000.0
    median, *rest = np.percentile(values, [50, *PERCENTILES]).tolist()
    numbers = [float(values.mean()), median, float(values.std()), *rest]
    return {f"{key}_{name}_ms": number for key, number in zip(keys, numbers, strict=True)}
