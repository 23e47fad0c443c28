"""How often `compare` cries wolf, and how often it sees a loss, on drawn repeats.

    python benchmarks/compare_noise.py [--trials 200]

Peer in the same run: Welch's test on the figures themselves. Repeats are drawn log-normal with a
coefficient of variation of 5, 15 and 30 % (a quiet node to a crowded machine), 4 points of 6
figures a comparison, Holm over all, as analysis/comparing.py does. First nothing differs: share of
comparisons with a regression or an improvement (promised: at most 5 %). Then every figure of one
point is worse by a half: share of comparisons that flag at least one figure of it.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence

from analysis.student import holm, welch

POINTS, FIGURES = 4, 6
SIGNIFICANT = 0.05


def drawn(source: random.Random, spread: float, count: int, factor: float) -> list[float]:
    """Repeats of one figure."""
    sigma = math.sqrt(math.log1p(spread**2))
    return [factor * math.exp(source.gauss(0.0, sigma)) for _ in range(count)]


def flagged(source: random.Random, spread: float, count: int, worse: float) -> tuple[bool, bool]:
    """Whether anything is flagged by ratios, and by differences."""
    factors = [worse if point == 0 else 1.0 for point in range(POINTS) for _ in range(FIGURES)]
    ratios, plain = list[float](), list[float]()
    for factor in factors:
        sides = [drawn(source, spread, count, one) for one in (1.0, factor)]
        logs = [[math.log(value) for value in side] for side in sides]
        ratios.append(_p(logs))
        plain.append(_p(sides))
    return any(p < SIGNIFICANT for p in holm(ratios)), any(p < SIGNIFICANT for p in holm(plain))


def _p(sides: Sequence[Sequence[float]]) -> float:
    shown = welch(sides[0], sides[1])
    return 1.0 if shown is None else shown.p


def main() -> int:
    """Always 0: it measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    trials = parser.parse_args().trials
    source = random.Random(20261130)
    write = sys.stdout.write
    write(f"{trials} comparisons each; share flagged by ratios / by differences\n")
    for worse, what in ((1.0, "nothing differs"), (1.5, "one point worse by a half")):
        for count in (3, 4, 8):
            for spread in (0.05, 0.15, 0.30):
                told = [flagged(source, spread, count, worse) for _ in range(trials)]
                ours, peer = (sum(one[place] for one in told) / trials for place in (0, 1))
                write(f"{what}, {count} repeats, spread {spread:.0%}: {ours:.1%} / {peer:.1%}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
