"""Student's t for two samples whose spreads differ (Welch), without a statistics library.

The tail probability is the regularized incomplete beta function, by its continued fraction
(Lentz; Numerical Recipes 6.4); quantiles by bisection on it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

STEPS = 300
CLOSE = 1e-12
TINY = 1e-300


@dataclass(frozen=True)
class Welch:
    """Mean of b - mean of a, its 95 % interval, and the two-sided p of no difference."""

    difference: float
    low: float
    high: float
    p: float


def welch(a: Sequence[float], b: Sequence[float]) -> Welch | None:
    """None below two values on a side, and where neither side varies (no noise to compare with)."""
    if len(a) < 2 or len(b) < 2:
        return None
    squares = [statistics.variance(side) / len(side) for side in (a, b)]
    error = math.sqrt(sum(squares))
    difference = statistics.fmean(b) - statistics.fmean(a)
    if error <= 0:
        return None
    freedom = sum(squares) ** 2 / sum(
        square**2 / (len(side) - 1) for square, side in zip(squares, (a, b), strict=True)
    )
    half = quantile(0.975, freedom) * error
    return Welch(
        difference, difference - half, difference + half, two_sided(difference / error, freedom)
    )


def two_sided(t: float, freedom: float) -> float:
    """Probability of a |t| at least this large."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def quantile(share: float, freedom: float) -> float:
    """The t below which `share` (above one half) of the distribution lies."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) / 2 > 1 - share and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if two_sided(middle, freedom) / 2 > 1 - share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), regularized."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > TINY else TINY)
    found = d
    for m in range(1, STEPS):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 + top * d, 1 + top / c
            d = 1 / (d if abs(d) > TINY else TINY)
            c = c if abs(c) > TINY else TINY
            found *= d * c
        if abs(d * c - 1) < CLOSE:
            break
    return found


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for having looked this often (Holm): each holds for all together."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    corrected, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = largest
    return corrected
