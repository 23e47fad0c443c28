"""A measurement's figures, by the definitions of `vllm bench serve` and the article's client.

TTFT: first chunk with a choice after sending. E2EL: sending to the last such chunk. TPOT: (E2EL -
TTFT) / (output tokens - 1), per request. Chunk gap: between two such chunks, all requests pooled:
what `vllm bench serve` calls ITL. ITL proper is a gap between tokens, so it is given only where a
chunk is a token. Duration: first sending to the end of the last answer. Good requests only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.clients.merged import Floats, Measured
from jobs.window import window_facts

PERCENTILES = (90, 99)
TOKENS_PER_CHUNK_OF_ITL = 1.1
"""Above it a gap between chunks is no inter-token latency (stream-interval; busy API servers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Goodput's limits in ms; None: no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is a limit at all."""
        return self.ttft_ms is not None or self.tpot_ms is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Seconds of the good requests. `tpot` holds nan for a request of one token or one chunk."""

    ttft: Floats
    e2el: Floats
    tpot: Floats
    gaps: Floats
    itl: Floats | None


def latencies(measured: Measured) -> Latencies:
    """Of every good request, in order."""
    good, columns = measured.good, measured.columns
    sent, first = columns["sent_s"][good], columns["first_s"][good]
    last, made = columns["last_s"][good], columns["output_tokens"][good]
    chunks = columns["chunks"][good]
    several = (made > 1) & (chunks > 1)
    tpot = np.full(len(sent), np.nan)
    tpot[several] = (last - first)[several] / (made - 1)[several]
    gaps = chunk_gaps(measured)
    # A chunk that is a token each: the gaps are inter-token latencies as they stand.
    single = bool(len(made)) and made.sum() <= TOKENS_PER_CHUNK_OF_ITL * chunks.sum()
    return Latencies(
        ttft=first - sent, e2el=last - sent, tpot=tpot, gaps=gaps, itl=gaps if single else None
    )


def chunk_gaps(measured: Measured) -> Floats:
    """Seconds between two chunks of a good request, all pooled."""
    counts = np.diff(measured.chunk_starts)
    of_good = np.repeat(measured.good, counts)
    begins = np.zeros(len(measured.chunk_us), dtype=bool)
    begins[measured.chunk_starts[:-1][counts > 0]] = True
    gaps = np.diff(measured.chunk_us.astype(np.int64), prepend=0)
    return np.asarray(gaps[of_good & ~begins] / 1e6)


def token_gaps(measured: Measured) -> Floats | None:
    """Seconds per token after a request's first chunk: each token of a chunk gets an equal part.

    None unless the server told the tokens of every chunk (native --chunk-usage).
    """
    good = measured.good
    if not good.any() or (measured.columns["counted"] != measured.columns["chunks"])[good].any():
        return None
    counts = np.diff(measured.chunk_starts)
    begins = np.zeros(len(measured.chunk_us), dtype=bool)
    begins[measured.chunk_starts[:-1][counts > 0]] = True
    later = np.repeat(good, counts) & ~begins
    tokens_of = np.diff(measured.token_starts)
    tokens = np.zeros(len(measured.chunk_us), dtype=np.int64)
    tokens[np.repeat(counts == tokens_of, counts)] = measured.chunk_tokens
    gaps = np.diff(measured.chunk_us.astype(np.int64), prepend=0)[later] / 1e6
    held = tokens[later]
    return np.asarray(np.repeat(gaps / np.maximum(held, 1), held))


def figures(measured: Measured, prompt_tokens: npt.NDArray[Any], limits: Limits) -> dict[str, Any]:
    """Counts, rates and latencies (ms); None where nothing was measured, never 0.

    `prompt_tokens`: of every request, as the prompt file counts them.
    """
    good, columns = measured.good, measured.columns
    found = latencies(measured)
    span = duration_s(measured)
    completed = int(good.sum())
    inputs = int(prompt_tokens[columns["index"]][good].sum())
    outputs = int(columns["output_tokens"][good].sum())
    share = good_share(measured, found, limits)
    result: dict[str, Any] = {
        "duration": span,
        "completed": completed,
        "failed": len(good) - completed,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": completed / span,
        "request_goodput": None if share is None else share * len(good) / span,
        "goodput_share": share,
        "output_throughput": outputs / span,
        "total_token_throughput": (inputs + outputs) / span,
    }
    tpot = found.tpot[~np.isnan(found.tpot)]
    named = {"ttft": found.ttft, "tpot": tpot, "itl": found.itl, "e2el": found.e2el}
    named |= {"chunk_gap": found.gaps, "token_gap": token_gaps(measured)}
    for name, values in named.items():
        result |= latency(name, values)
    return result | counted(measured, prompt_tokens)


def duration_s(measured: Measured) -> float:
    """First sending to the end of the last answer, good or not; at least a microsecond."""
    columns = measured.columns
    if not len(columns["sent_s"]):
        return 1e-6
    return max(float(columns["end_s"].max() - columns["sent_s"].min()), 1e-6)


def counted(measured: Measured, prompt_tokens: npt.NDArray[Any]) -> dict[str, Any]:
    """What the servers' own counts say against ours."""
    good, columns = measured.good, measured.columns
    told = good & (columns["server_prompt_tokens"] >= 0)
    asked = prompt_tokens[columns["index"]]
    return {
        "prompt_tokens_differ": int((columns["server_prompt_tokens"] != asked)[told].sum()),
        "prompt_tokens_told": int(columns["server_prompt_tokens"][told].sum())
        if told.any()
        else None,
        "more_chunks_than_tokens": int((columns["chunks"] > columns["output_tokens"])[good].sum()),
        "chunks": int(columns["chunks"][good].sum()),
        "error_counts": measured.errors(),
        "error_samples": measured.samples,
    }


def good_share(measured: Measured, found: Latencies, limits: Limits) -> float | None:
    """Share of all requests, failed ones too, that were good and within the limits (0..1).

    A request of one token has no TPOT and keeps any limit of it, as in `vllm bench serve`.
    """
    total = len(measured.good)
    if not limits.given or not total:
        return None
    within = np.ones(len(found.ttft), dtype=bool)
    if limits.ttft_ms is not None:
        within &= found.ttft * 1e3 <= limits.ttft_ms
    if limits.tpot_ms is not None:
        within &= np.nan_to_num(found.tpot) * 1e3 <= limits.tpot_ms
    return float(within.sum() / total)


def latency(name: str, seconds: Floats | None) -> dict[str, float | None]:
    """Mean, median, deviation and percentiles in ms, by numpy's linear interpolation."""
    keys = ["mean", "median", "std", *(f"p{p}" for p in PERCENTILES)]
    if seconds is None or not len(seconds):
        return {f"{key}_{name}_ms": None for key in keys}
    median, *rest = (np.percentile(seconds, [50, *PERCENTILES]) * 1e3).tolist()
    numbers = [float(seconds.mean() * 1e3), median, float(seconds.std() * 1e3), *rest]
    return {f"{key}_{name}_ms": number for key, number in zip(keys, numbers, strict=True)}


def window(
    measured: Measured, asked_tokens: npt.NDArray[Any], concurrency: int
) -> dict[str, float | int | None]:
    """The point seen from inside (jobs/window.py); `asked_tokens` by request number, concurrency
    0 where requests were sent by the clock."""
    good, columns = measured.good, measured.columns
    sent = columns["sent_s"][good]
    ttft, e2el = columns["first_s"][good] - sent, columns["last_s"][good] - sent
    facts = window_facts(sent.tolist(), ttft.tolist(), e2el.tolist(), concurrency)
    waits = (columns["sent_s"] - columns["due_s"]).clip(min=0)
    facts["queue_mean_ms"] = float(waits.mean() * 1e3) if len(waits) else None
    short = columns["output_tokens"] < asked_tokens[columns["index"]]
    facts["short_outputs"] = int((short & good).sum())
    return facts


def other_prompts(
    measured: Measured, prompt_tokens: npt.NDArray[Any], turn: npt.NDArray[Any] | None
) -> dict[str, int | None]:
    """Prompts that the server counted otherwise than the file, and by how many tokens in all; None
    where it told no count. Later turns hold answers, whose length in a prompt nobody promised."""
    columns = measured.columns
    told = measured.good & (columns["server_prompt_tokens"] >= 0)
    if turn is not None:
        told &= turn[columns["index"]] == 0
    if not told.any():
        return {"other_prompts": None, "other_prompt_tokens": None}
    off = (columns["server_prompt_tokens"] - prompt_tokens[columns["index"]])[told]
    return {"other_prompts": int((off != 0).sum()), "other_prompt_tokens": int(np.abs(off).sum())}


def own_load(measured: Measured) -> dict[str, float | int | None]:
    """How busy the client was itself; lags over the samples of all processes."""
    lags = np.concatenate(measured.lags_s) * 1e3
    late = measured.columns["late_s"][measured.good]
    late = late[~np.isnan(late)] * 1e3
    columns = measured.columns
    behind = (columns["sent_s"] - columns["due_s"]) * 1e3
    return {
        "client_processes": len(measured.shares),
        "client_cpu_share": max(measured.shares),
        "client_cpu_peak_share": max(measured.peak_shares),
        "client_cpu_s": sum(measured.cpu_s),
        "client_loop_lag_p99_ms": float(np.percentile(lags, 99)) if len(lags) else None,
        "client_loop_lag_max_ms": float(lags.max()) if len(lags) else None,
        "client_backlog_max": max(measured.backlogs),
        "client_send_late_p99_ms": float(np.percentile(behind, 99)) if len(behind) else None,
        "ttft_client_added_p99_ms": float(np.percentile(late, 99)) if len(late) else None,
    }
