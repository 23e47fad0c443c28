"""Texts that differ in their figures only, told once: "its event loop lagged 73..92 ms".

Ten repeats of a point give ten reasons with ten figures; a reader wants the kind once, and how far
the figures reach.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FIGURE = re.compile(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-])")
"""A number that stands alone: not part of a name such as p99, c4-repeat2 or a date."""


def kind(text: str) -> str:
    """Equal for texts that differ in their figures only."""
    return FIGURE.sub("#", text)


def told_once(texts: Sequence[str]) -> str:
    """The first of texts of one kind, with "least..most" where their figures differ."""
    columns = zip(*(FIGURE.findall(text) for text in texts), strict=True)
    figures = iter([_reach(column) for column in columns])
    return FIGURE.sub(lambda _: next(figures), texts[0])


def _reach(figures: Sequence[str]) -> str:
    ordered = sorted(set(figures), key=lambda figure: float(figure.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}..{ordered[-1]}"
