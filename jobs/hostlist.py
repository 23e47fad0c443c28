"""Slurm's node lists as names: `gb200-[01-03,07],login` and what stands there when there are none.

Expansion is that of `scontrol show hostnames` (Slurm 24.11.5, each rule tried): the width of a
range's first number is kept, several brackets multiply with the last one fastest, text may follow
a bracket. Unlike scontrol, which also answers a broken list with exit code 0 and echoes
place-holders, a list that is broken is an error and a node named twice is one node.
"""

from __future__ import annotations

import re

PLACE_HOLDERS = frozenset({"", "(null)", "None", "None assigned", "n/a", "N/A", "Unknown"})
"""What squeue, sacct and the job's environment say where there are no nodes (yet)."""

MAX_NODES = 65536
"""Slurm's own limit of one range (MAX_RANGE in its hostlist.c)."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
PART = re.compile(r"[^\s,\[\]]*(?:\[[^\[\]]*\][^\s,\[\]]*)*")


class NodeListError(ValueError):
    """A text that is no node list; it says which part, and of which text."""


def expand_hostlist(text: str) -> list[str]:
    """Names in Slurm's order, each once; empty for a place-holder; NodeListError otherwise."""
    text = text.strip()
    if text in PLACE_HOLDERS:
        return []
    names: dict[str, None] = {}
    for part in _parts(text):
        for name in _expand(part, text):
            names[name] = None
            if len(names) > MAX_NODES:
                raise NodeListError(f"node list {text[:200]!r}: more than {MAX_NODES} nodes")
    return list(names)


def _parts(text: str) -> list[str]:
    """The list cut at the commas that are not inside brackets."""
    parts, place = [], 0
    while place < len(text):
        match = PART.match(text, place)
        end = match.end() if match else place
        if end < len(text) and text[end] != ",":
            raise NodeListError(f"node list {text[:200]!r} is broken at {text[end : end + 20]!r}")
        parts.append(text[place:end])
        place = end + 1
    return [part for part in parts if part]


def _expand(part: str, text: str) -> list[str]:
    """All names of one part."""
    names = [""]
    for index, piece in enumerate(re.split(r"\[([^\[\]]*)\]", part)):
        endings = _numbers(piece, text) if index % 2 else [piece]
        if len(names) * len(endings) > MAX_NODES:
            raise NodeListError(f"node list {text[:200]!r}: more than {MAX_NODES} nodes")
        names = [name + ending for name in names for ending in endings]
    for name in names:
        if not NAME.fullmatch(name):
            raise NodeListError(f"node list {text[:200]!r}: {name[:80]!r} is no node's name")
    return names


def _numbers(inside: str, text: str) -> list[str]:
    """`01-03,07` as 01, 02, 03, 07."""
    found: list[str] = []
    for item in inside.split(","):
        match = RANGE.fullmatch(item)
        if not match or len(item) > 40:
            raise NodeListError(
                f"node list {text[:200]!r}: [{inside[:80]}] is broken: {item[:40]!r} is neither a "
                "number nor a range of numbers"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_NODES:
            raise NodeListError(f"node list {text[:200]!r}: {item} is no range from low to high")
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
