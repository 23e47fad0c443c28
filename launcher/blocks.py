"""Which segments the cluster's blocks can hold: the arithmetic of sbatch --segment. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BLOCK = re.compile(r"^BlockName=(\S+) .*?Nodes=(\S+)", re.MULTILINE)

Blocks = Mapping[str, int]
"""Nodes of each block that the job may use."""


def block_nodes(topology: str) -> dict[str, str]:
    """Node list of each block in `scontrol show topology` (topology/block; others have none).

    Blocks of blocks are listed as well, without a list of nodes of their own or with those of
    their parts; the smallest ones come first and keep their nodes.
    """
    found: dict[str, str] = {}
    for name, nodes in BLOCK.findall(topology):
        if nodes not in found.values():
            found[name] = nodes
    return found


def holds(blocks: Blocks, nodes: int, segment: int) -> bool:
    """Whether `nodes` nodes fit in whole segments, each within one block (sbatch(1))."""
    return nodes % segment == 0 and sum(n // segment for n in blocks.values()) * segment >= nodes


def segment_advice(nodes: int, asked: int, smaller: Sequence[int], blocks: Blocks | None) -> str:
    """What fits instead of a segment that Slurm does not hold, and what to do."""
    where = "this cluster's blocks are not known (scontrol show topology names none)"
    fitting = list(smaller)
    if blocks:
        shown = ", ".join(f"{name} {count}" for name, count in list(blocks.items())[:8])
        more = f" and {len(blocks) - 8} more" if len(blocks) > 8 else ""
        where = f"the job may use these nodes of each block: {shown}{more}"
        fitting = [size for size in smaller if holds(blocks, nodes, size)]
    text = f"{nodes} nodes in segments of {asked} do not fit: {where}\n  "
    if not smaller:
        return text + (
            f"no smaller divisor of {nodes} keeps every endpoint in one segment: use another "
            "topology or partition, or cluster.segment=off"
        )
    if not fitting:
        divisors = ", ".join(map(str, smaller))
        return text + (
            f"nor does any smaller one that cuts no endpoint ({divisors}): ask for fewer nodes, "
            "another partition, or cluster.segment=off"
        )
    likely = "fit" if blocks else "divide it and cut no endpoint"
    return text + (
        f"segments that {likely}: {', '.join(map(str, fitting))}; set cluster.segment={fitting[0]},"
        " or cluster.segment_fallback=divisor to have the next one taken (nodes of different "
        "segments may reach each other over the network only, not over NVLink)"
    )
