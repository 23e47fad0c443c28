"""Facts about one point that the verdict and the columns share."""

from __future__ import annotations

import math

from jobs.records import BenchPoint, Latency

DEFINITIONS = ("inferencemax", "vllm")


def expected_range(definition: str, length: int, ratio: float) -> tuple[int, int] | None:
    """The shortest and longest request a definition of the range ratio allows.

    "inferencemax" is U[int(r*L), L], "vllm" is U[floor(L(1-r)), ceil(L(1+r))] with r < 1.
    None for a ratio or a definition that names no range.
    """
    if definition == "inferencemax" and 0 <= ratio <= 1:
        return int(length * ratio), length
    if definition == "vllm" and 0 <= ratio < 1:
        return math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio))
    return None


TELL_TTFT = ("native", "vllm_bench")
"""Our clients: a TTFT that their record lacks was not seen. Others may not have been asked."""


def latency_is_measured(point: BenchPoint) -> bool:
    """False where tokens came and yet the first of them is said to have taken no time."""
    ttft = point.ttft_ms
    absent = ttft == Latency() and point.client in TELL_TTFT and point.total_output_tokens > 0
    return not (absent or 0 in (ttft.mean, ttft.median))


def external_share(point: BenchPoint) -> float | None:
    """Prompt tokens decode took over from outside / prompt tokens; None where not told.

    Prompt tokens are the prefill servers' own count (the same window as decode's, warm-up in or
    out), or the client's where the servers do not tell.
    """
    prompts = point.server.prefill_prompt_tokens or point.total_input_tokens
    if point.server.decode_external_tokens is None or not prompts:
        return None
    return point.server.decode_external_tokens / prompts


def cached_share(point: BenchPoint) -> float | None:
    """Prompt tokens found in a prefix cache / prompt tokens; None where not told."""
    cached, prompts = point.server.prefill_cached_tokens, point.server.prefill_prompt_tokens
    return cached / prompts if cached is not None and prompts else None


def goodput_limits(point: BenchPoint) -> str | None:
    """The limits of a good request in words; None where none are known."""
    limits = (("TTFT", point.goodput_ttft_ms), ("TPOT", point.goodput_tpot_ms))
    told = [f"{name} <= {value:g} ms" for name, value in limits if value is not None]
    return ", ".join(told) or None


def mean_length(total: int, completed: int) -> float | None:
    """Tokens per successful request; None when nothing completed."""
    return total / completed if completed else None


def in_flight(point: BenchPoint) -> float | None:
    """Mean requests in flight by Little's law: completed x mean E2E / duration; None unknown."""
    if point.e2el_ms.mean is None or not point.duration_s or not point.completed:
        return None
    return point.completed * point.e2el_ms.mean / 1000 / point.duration_s


def mean_e2el_ms(point: BenchPoint) -> float | None:
    """The mean E2E; where a client does not tell it, mean TTFT + mean TPOT of all later tokens."""
    if point.e2el_ms.mean is not None or not point.completed:
        return point.e2el_ms.mean
    first, each = point.ttft_ms.mean, point.tpot_ms.mean
    if first is None or each is None:
        return None
    return first + each * max(0.0, point.total_output_tokens / point.completed - 1)


def miscounted(point: BenchPoint) -> str:
    """How the servers' own count of the prompts differs from what they were made of, in words."""
    off = point.window.other_prompt_tokens or 0
    return (
        f"other tokenizer: the servers counted another length than the prompt file in"
        f" {point.window.other_prompts} of {point.completed} prompts ({off} tokens in all);"
        " theirs is not the tokenizer or chat template that the prompts were made with"
    )
