"""95 % intervals: of a share of right answers, and of a mean over few repeats.

A share's interval (Wilson) treats every question as its own draw; repeats ask the same questions
and are no further draws. The t interval tells how far the repeats lie apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Z_95 = 1.959963984540054
# Student's t, two-sided 95 %, for 1..30 degrees of freedom.
T_95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


def wilson(successes: float, trials: float) -> tuple[float, float] | None:
    """Lower and upper end for a share; None without trials."""
    if trials <= 0:
        return None
    share, square = successes / trials, Z_95**2
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    spread = math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    half = Z_95 * spread / (1 + square / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def newcombe(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float]:
    """Ends for the difference second - first of two shares, each (share, low, high) by Wilson
    (Newcombe 1998, method 10)."""
    (p1, l1, u1), (p2, l2, u2) = first, second
    below = math.sqrt((p2 - l2) ** 2 + (u1 - p1) ** 2)
    above = math.sqrt((u2 - p2) ** 2 + (p1 - l1) ** 2)
    return p2 - p1 - below, p2 - p1 + above


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Lower and upper end for the mean of `values`; None for fewer than two."""
    if len(values) < 2:
        return None
    mean, freedom = statistics.fmean(values), len(values) - 1
    # statistics.stdev reckons in fractions: as long as reading the file of the values.
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / freedom)
    half = t_quantile(freedom) * spread / math.sqrt(len(values))
    return mean - half, mean + half


def t_quantile(freedom: int) -> float:
    """Student's t, two-sided 95 %; above 30 degrees of freedom by expansion (error < 1e-4)."""
    if freedom <= len(T_95):
        return T_95[freedom - 1]
    first = (Z_95**3 + Z_95) / (4 * freedom)
    second = (5 * Z_95**5 + 16 * Z_95**3 + 3 * Z_95) / (96 * freedom**2)
    return Z_95 + first + second
