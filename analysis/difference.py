"""One figure of one point on both sides: how far it moved, and whether repeats show that it did.

Figures above zero are compared as ratios: their logarithms are what Welch's test sees, since speeds
and times scatter in proportion to themselves. Shares (0..1) are compared by their difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.metrics import Metric
from analysis.student import holm, welch
from analysis.tables import find

SIGNIFICANT = 0.05
REGRESSION, IMPROVEMENT = "REGRESSION", "improvement"
NO_CHANGE, NO_STATEMENT = "no change shown", "no statement"
NOT_CLEAR = "not clear"
"""Alone it would be a change; among all that was compared it may be chance."""
WITHIN = "repeats within single runs: how far runs lie apart is not in the intervals"
NESTED = "runs with repeats: each run counts once, with the mean of its repeats"

LARGEST_LOG = 700.0
"""exp of more overflows; an interval that wide says nothing anyway."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One metric of one point on both sides. `low`..`high` is the 95 % interval of `change` where
    `ratio`, else of b - a; None without repeats."""

    point: str
    metric: str
    unit: str
    n_a: int
    n_b: int
    a: float
    b: float
    """Means of the sides; geometric ones where `ratio`."""
    change: float | None
    """(b - a) / a."""
    ratio: bool = False
    low: float | None = None
    high: float | None = None
    p: float | None = None
    verdict: str = NO_STATEMENT
    why: str = ""


def samples(a: pd.DataFrame, b: pd.DataFrame, name: str) -> tuple[list[float], list[float], str]:
    """The independent values of both sides, and what to know of them.

    Repeats within a run share its start, its nodes and its hour. Where both sides have two runs or
    more, a run counts once, with the mean of its repeats.
    """
    told = [side[["run", name]].dropna() for side in (a, b)]
    rows = [[float(value) for value in side[name]] for side in told]
    runs = [[float(value) for value in side.groupby("run")[name].mean()] for side in told]
    if [len(side) for side in rows] == [len(side) for side in runs]:
        return rows[0], rows[1], ""
    if min(len(side) for side in runs) >= 2:
        return runs[0], runs[1], NESTED
    return rows[0], rows[1], WITHIN


def differences(
    words: str, a: pd.DataFrame, b: pd.DataFrame, metrics: Sequence[Metric]
) -> Iterator[Difference]:
    """Every metric that both sides have, not yet judged."""
    for metric in metrics:
        left, right, _ = samples(a, b, metric.name)
        if not left or not right:
            continue
        one = _measured(words, metric, left, right)
        if min(len(left), len(right)) < 2:
            one = replace(one, why=f"no repeats ({len(left)} against {len(right)})")
        elif one.p is None:
            one = replace(one, why="repeats are all alike: there is no noise to compare with")
        yield one


def _measured(
    words: str, metric: Metric, left: Sequence[float], right: Sequence[float]
) -> Difference:
    ratio = metric.unit != "0..1" and min(*left, *right) > 0
    sides = [[math.log(value) for value in side] if ratio else side for side in (left, right)]
    means = [statistics.fmean(side) for side in sides]
    a, b = map(math.exp, means) if ratio else means
    shown = welch(*sides)
    one = Difference(
        point=words, metric=metric.name, unit=metric.unit, n_a=len(left), n_b=len(right),
        a=a, b=b, change=(b - a) / a if a else None, ratio=ratio,
    )  # fmt: skip
    if shown is None:
        return one
    low, high = (_share(end) if ratio else end for end in (shown.low, shown.high))
    return replace(one, low=low, high=high, p=shown.p)


def _share(logarithm: float) -> float:
    """(b - a) / a from the logarithm of b / a."""
    return math.expm1(min(logarithm, LARGEST_LOG))


def judged(found: Sequence[Difference], tolerance: float | None) -> list[Difference]:
    """Words for every difference; p corrected over all that have one."""
    places = [place for place, each in enumerate(found) if each.p is not None]
    corrected = dict(zip(places, holm([found[p].p or 0.0 for p in places]), strict=True))
    return [_judge(each, corrected.get(place), tolerance) for place, each in enumerate(found)]


def _judge(one: Difference, p: float | None, tolerance: float | None) -> Difference:
    if one.verdict == REGRESSION or one.change is None:
        return one
    beyond = tolerance is None or abs(one.change) > tolerance
    worse = (one.b < one.a) == (find(one.metric).better == "higher")
    word = REGRESSION if worse else IMPROVEMENT
    if p is not None:
        if p >= SIGNIFICANT > (one.p or 0.0) and beyond:
            why = f"p {one.p:.2g} alone, {p:.2g} among all (Holm): repeat it more often"
            return replace(one, verdict=NOT_CLEAR, why=why)
        if p >= SIGNIFICANT:
            return replace(one, verdict=NO_CHANGE, why=f"p {p:.2g} (Holm)")
        if not beyond:
            return replace(one, verdict=NO_CHANGE, why=f"within the tolerance of {tolerance:.3g}")
        return replace(one, verdict=word, why=f"p {p:.2g} (Holm)")
    if tolerance is None:
        return one
    if not beyond:
        return replace(one, verdict=NO_CHANGE, why=f"within the tolerance; {one.why}")
    return replace(one, verdict=word, why=f"beyond the stated tolerance; {one.why}")
