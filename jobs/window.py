"""What a point's span looked like from inside, by the client's times of single requests.

A mean over a point hides a first wave that paid for compilation, a speed that was still changing,
and a client that never had all its requests under way. Clients keep the figures of `window_facts`
under the key "window" of their result, whoever reads a foreign result computes the same ones.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.records import RecordError, Window, from_json

HALF_AT_LEAST = 16
"""Requests per half below which a median over it says nothing."""


def window_facts(
    starts_s: Sequence[float],
    ttfts_s: Sequence[float],
    e2els_s: Sequence[float],
    concurrency: int,
) -> dict[str, float | int | None]:
    """Figures of `Window` from successful requests, in any order; all times in seconds.

    `starts_s` is when each was sent, on one clock. Sequences of unlike length give no figures.
    E2E may be empty where it is not known: what needs it stays None. `concurrency` 0 is an open
    loop: it has no first wave, and its edges are as many requests as are under way on average.
    """
    facts: dict[str, float | int | None] = {}
    if len(starts_s) == len(ttfts_s) and starts_s and concurrency:
        facts |= _waves(starts_s, ttfts_s, concurrency)
    if len(starts_s) == len(e2els_s) and starts_s:
        facts["peak_concurrency"] = _peak(starts_s, e2els_s)
        facts |= _halves(starts_s, e2els_s, concurrency or _under_way(starts_s, e2els_s))
    return facts


def from_arrays(result: Mapping[str, Any], concurrency: int) -> dict[str, float | int | None]:
    """The same from the arrays of `vllm bench serve --save-detailed`: one entry a request.

    Our client adds `asked_input_lens` and `asked_output_lens`, the tokens that each prompt was made
    of and that were asked of each; `concurrency` 0: an open
    loop. Arrays that are missing, or that do not fit each other, give no figures; a request that
    failed is left out. Releases that keep no start times list requests in the order of sending:
    enough to tell the waves.
    """
    starts, ttfts = _numbers(result.get("start_times")), _numbers(result.get("ttfts"))
    e2els = _numbers(result.get("latencies")) or _e2els(ttfts, result.get("itls"))
    lengths = _numbers(result.get("output_lens"))
    errors = result.get("errors")
    failed = [bool(e) for e in errors] if isinstance(errors, list) else []
    if len(failed) != len(ttfts):
        failed = [length == 0 for length in lengths] if len(lengths) == len(ttfts) else []
    good = [n for n in range(len(ttfts)) if not (failed and failed[n])]
    if "start_times" in result:
        facts = window_facts(
            _pick(starts, good), _pick(ttfts, good), _pick(e2els, good), concurrency
        )
    else:
        facts = window_facts([float(n) for n in good], _pick(ttfts, good), [], concurrency)
    facts["queue_mean_ms"] = queue_mean_ms(result.get("queue_times"))
    asked = _numbers(result.get("asked_output_lens"))
    if asked and len(asked) == len(lengths) == len(ttfts):
        facts["short_outputs"] = sum(lengths[n] < asked[n] for n in good)
    return facts | _other_prompts(result, good)


def _other_prompts(result: Mapping[str, Any], good: list[int]) -> dict[str, float | int | None]:
    """Prompts that the server counted otherwise than they were made; nothing where it is not told.
    `input_lens` are the server's counts from vLLM 0.32 on, before that what was asked."""
    made, counted = _numbers(result.get("asked_input_lens")), _numbers(result.get("input_lens"))
    if not made or len(made) != len(counted) or max(good, default=0) >= len(made):
        return {}
    off = [int(counted[n] - made[n]) for n in good]
    return {"other_prompts": sum(map(bool, off)), "other_prompt_tokens": sum(map(abs, off))}


def read_window(data: Mapping[str, Any], concurrency: int, arrays: Path) -> Window:
    """The window of a client's result: its own part, or one made from the `arrays` beside it.

    What cannot be read is left out: the window is a remark on the figures, not one of them.
    """
    told = data.get("window")
    if told is None and arrays.exists():
        told = from_arrays(_object(arrays), concurrency)
    return window_of(told, data)


def window_of(told: Any, data: Mapping[str, Any]) -> Window:
    """The window from its figures, and from what `vllm bench serve` says by itself."""
    try:
        window = from_json(Window, told if isinstance(told, dict) else {}, "window")
    except RecordError:
        window = Window()
    if window.peak_concurrency is None:
        window.peak_concurrency = _whole(data.get("max_concurrent_requests"))
    if window.queue_mean_ms is None:
        window.queue_mean_ms = queue_mean_ms(data.get("queue_times"))
    return window


def queue_mean_ms(queue_times_s: Any) -> float | None:
    """Mean of the client's own waiting times (s) in ms; None for anything but numbers."""
    if not isinstance(queue_times_s, list) or not queue_times_s:
        return None
    numbers = [t for t in queue_times_s if isinstance(t, int | float) and t >= 0]
    return statistics.fmean(numbers) * 1000 if len(numbers) == len(queue_times_s) else None


def _waves(
    starts: Sequence[float], ttfts: Sequence[float], concurrency: int
) -> dict[str, float | int | None]:
    ordered = [ttft for _, ttft in sorted(zip(starts, ttfts, strict=True))]
    first, later = ordered[:concurrency], ordered[concurrency:]
    if not later:
        return {}
    return {
        "first_wave_ttft_ms": statistics.fmean(first) * 1000,
        "later_ttft_ms": statistics.fmean(later) * 1000,
    }


def _peak(starts: Sequence[float], e2els: Sequence[float]) -> int:
    """Most requests between sending and last token at one moment; one ends before one begins."""
    changes = [(start, 1) for start in starts]
    changes += [(start + e2el, -1) for start, e2el in zip(starts, e2els, strict=True)]
    running = peak = 0
    for _, change in sorted(changes):
        running += change
        peak = max(peak, running)
    return peak


def _under_way(starts: Sequence[float], e2els: Sequence[float]) -> int:
    """Requests in flight on average (Little's law), at least 1."""
    ends = (start + e2el for start, e2el in zip(starts, e2els, strict=True))
    span = max(ends) - min(starts)
    return max(1, round(sum(e2els) / span)) if span > 0 else 1


def _halves(
    starts: Sequence[float], e2els: Sequence[float], concurrency: int
) -> dict[str, float | int | None]:
    ordered = [e2el for _, e2el in sorted(zip(starts, e2els, strict=True))]
    later = ordered[concurrency : len(ordered) - concurrency]
    middle = len(later) // 2
    if middle < HALF_AT_LEAST:
        return {}
    return {
        "first_half_e2el_ms": statistics.median(later[:middle]) * 1000,
        "second_half_e2el_ms": statistics.median(later[middle:]) * 1000,
    }


def _e2els(ttfts: Sequence[float], itls: Any) -> list[float]:
    """First token and all gaps after it; empty unless there is a list of gaps for each request."""
    if not isinstance(itls, list) or len(itls) != len(ttfts):
        return []
    gaps = [_numbers(each) for each in itls]
    return [ttft + sum(each) for ttft, each in zip(ttfts, gaps, strict=True)]


def _numbers(values: Any) -> list[float]:
    """`values` if it is a list of finite numbers, else nothing."""
    if not isinstance(values, list):
        return []
    fine = all(
        isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values
    )
    return [float(v) for v in values] if fine else []


def _pick(values: Sequence[float], places: Sequence[int]) -> list[float]:
    """The values at those places; none when there are too few."""
    return [values[n] for n in places] if places and len(values) > places[-1] else []


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _whole(value: Any) -> int | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return int(value) if usable else None
