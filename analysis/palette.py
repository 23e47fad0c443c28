"""How series are told apart: by colour, by mark and by dash, so that grey print works too."""

from __future__ import annotations

from dataclasses import dataclass

# Okabe and Ito, "Color Universal Design" (2008), without its yellow, which is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DARK_COLOURS = ("#4AA8E0", "#FF7F2A", "#2CC79B", "#E29CC2", "#8CCBF2", "#F2B632", "#FFFFFF")
MARKS = ("circle", "square", "triangle", "diamond", "down", "pentagon", "plus")
DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3))

BOTTLENECKS = {
    "prefill": ("#0072B2", "P"),
    "decode-kv": ("#D55E00", "K"),
    "decode-compute": ("#E69F00", "C"),
    "transfer": ("#CC79A7", "T"),
    "frontend": ("#56B4E9", "F"),
    "client": ("#999999", "L"),
    "": ("#E6E6E6", "?"),
}
"""Colour and letter of what held a point back; the letter carries it without colour."""

PHASES = {
    "launch": ("#999999", "L"),
    "import": ("#56B4E9", "I"),
    "weights": ("#0072B2", "W"),
    "compile": ("#E69F00", "C"),
    "kv_cache": ("#CC79A7", "K"),
    "warmup": ("#F0E442", "U"),
    "graphs": ("#D55E00", "G"),
    "ready": ("#009E73", "R"),
}
"""Colour and letter of a part of a worker's start."""


@dataclass(frozen=True, slots=True)
class Style:
    """How one series looks; `dash` in points, empty for a whole line."""

    colour: str
    dark_colour: str
    mark: str
    dash: tuple[int, ...]


def style(place: int) -> Style:
    """The look of the n-th series. 7 colours, then 7 again with the next mark and dash: all
    different up to 49."""
    colour, turn = place % len(COLOURS), place // len(COLOURS)
    mark = MARKS[(colour + turn) % len(MARKS)]
    return Style(COLOURS[colour], DARK_COLOURS[colour], mark, DASHES[turn % len(DASHES)])
