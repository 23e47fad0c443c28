"""Which points no other point beats: the Pareto frontier of two figures, higher better in both."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]


def on_frontier(points: Sequence[Point]) -> list[bool]:
    """For each (x, y): no other point is at least as good in both and better in one.

    Equal points are on it together. O(n log n): from the highest x down, a point counts when its
    y is above every y of a higher x.
    """
    marks = [False] * len(points)
    best = float("-inf")
    order = sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1]))
    kept: Point | None = None
    for index in order:
        if points[index][1] > best or points[index] == kept:
            best, kept, marks[index] = points[index][1], points[index], True
    return marks


def sure_of_frontier(points: Sequence[Point], error: Point) -> list[bool]:
    """For each point: still on the frontier when it is read too high by `error` in both figures
    and every other one too low by as much."""
    return [
        not any(
            other != place
            and x + error[0] >= points[place][0] - error[0]
            and y + error[1] >= points[place][1] - error[1]
            for other, (x, y) in enumerate(points)
        )
        for place in range(len(points))
    ]
