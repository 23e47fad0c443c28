"""Comparing answers token by token: is a transferred state the right one?

NixlConnector hands hybrid models over one token short, so decode runs the last prompt token
through its own kernels. Therefore the exact form is matched: the plain answer to Q is t1, t2, ..;
through a pair, Q + [t1] must answer t2, ...
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.engines.dialect import Answer

EXACT_DELTA = 1e-6
BAND_ULP = 8.0
BAND_MEDIAN_ULP = 2.0
BAND_OVERLAP = 15
BAND_SHARE = 0.9
CONTROL_OVERLAP = 5

ULP_RANGE = (2.0**-7, 2.0**-3)
"""bf16 spacing of logits between 1 and 32: where a top logit lies."""

NOTHING_SHARED = 1000.0
"""Delta of lists without a common candidate: beyond any real one, and still plain JSON."""

Top = dict[str, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two candidate lists: how many candidates they share, and how far apart those are."""

    overlap: int
    delta: float
    same_first: bool


def compare_tops(one: Top, other: Top) -> Difference:
    """`delta` is the largest |difference| of log probabilities over shared candidates."""
    shared = one.keys() & other.keys()
    delta = max((abs(one[key] - other[key]) for key in shared), default=NOTHING_SHARED)
    first = bool(one and other) and max(one, key=one.__getitem__) == max(
        other, key=other.__getitem__
    )
    return Difference(len(shared), delta, first)


def check_exact(reference: Answer, answer: Answer) -> dict[str, Any]:
    """Matched form of one prompt: `answer` must repeat `reference` from its second token on."""
    expected, tops = reference.token_ids[1:], reference.tops[1:]
    worst, equal, tie = 0.0, 0, False
    for place, token in enumerate(expected):
        if place >= len(answer.token_ids) or place >= len(answer.tops) or place >= len(tops):
            break
        seen = compare_tops(tops[place], answer.tops[place])
        worst = max(worst, seen.delta)
        if answer.token_ids[place] != token:
            tie = is_tie(tops[place])
            break
        equal += 1
    complete = equal == len(expected) and len(expected) > 0
    return {
        "tokens": len(expected),
        "equal": equal,
        "tie": tie,
        "max_delta": worst,
        "passed": (complete or tie) and worst <= EXACT_DELTA,
    }


def is_tie(top: Top) -> bool:
    """Whether the two best candidates are exactly equal: then either one is right."""
    best = sorted(top.values(), reverse=True)[:2]
    return len(best) == 2 and best[0] == best[1]


def check_first(reference: Answer, answer: Answer) -> dict[str, Any]:
    """Band form of one prompt: the first token's candidates beside the plain answer's."""
    seen = compare_tops(reference.tops[0], answer.tops[0])
    return {"overlap": seen.overlap, "delta": seen.delta, "same_first": seen.same_first}


def check_control(right: Top, wrong: Top, exact: bool) -> dict[str, Any]:
    """Whether the check that is used would have seen another prompt's state.

    The exact form sees it when the best candidate is another one; the band form, which lets lists
    differ, only when they share few candidates besides.
    """
    seen = compare_tops(right, wrong)
    detects = not seen.same_first and (exact or seen.overlap <= CONTROL_OVERLAP)
    return {"overlap": seen.overlap, "same_first": seen.same_first, "detects": detects}


def control_power(prompts: Sequence[dict[str, Any]], exact: bool) -> bool:
    """Whether enough controls were seen for the form: all, or the band's own share of them."""
    seen = sum(entry["control"]["detects"] for entry in prompts)
    needed = (1.0 if exact else BAND_SHARE) * len(prompts)
    return bool(seen >= needed)


def logit_ulp(tops: Sequence[Top]) -> float:
    """Spacing of the logits, seen as the smallest gap between candidates (logits are bf16)."""
    gaps = [
        high - low
        for top in tops
        for high, low in zip(
            sorted(top.values(), reverse=True), sorted(top.values(), reverse=True)[1:], strict=False
        )
        if high - low > 1e-4
    ]
    if not gaps:
        return ULP_RANGE[0]
    return float(min(max(2.0 ** round(math.log2(min(gaps))), ULP_RANGE[0]), ULP_RANGE[1]))


def judge_band(prompts: Sequence[dict[str, Any]], ulp: float) -> tuple[bool, str]:
    """Band verdict over all prompts, and its numbers in words."""
    inside = [p for p in prompts if p["delta"] <= BAND_ULP * ulp and p["overlap"] >= BAND_OVERLAP]
    median = statistics.median(p["delta"] for p in prompts)
    passed = len(inside) >= BAND_SHARE * len(prompts) and median <= BAND_MEDIAN_ULP * ulp
    text = (
        f"{len(inside)} of {len(prompts)} prompts inside (delta <= {BAND_ULP * ulp:.4g}, "
        f"overlap >= {BAND_OVERLAP}; {BAND_SHARE:.0%} needed), median delta {median:.4g} "
        f"(limit {BAND_MEDIAN_ULP * ulp:.4g}, ulp {ulp:.4g})"
    )
    return passed, text
