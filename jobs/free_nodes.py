"""How many nodes of the cluster are free, for people whose run waits."""

from __future__ import annotations

from collections import Counter

from jobs.node_states import parse_node_state
from jobs.slurm_ask import Asker, ask_slurm

SINFO = ("sinfo", "--noheader", "--Node", "--format=%N|%T")


def count_nodes(asker: Asker = ask_slurm) -> dict[str, int] | None:
    """Nodes by use (free, busy, not now, unusable); None when sinfo does not answer.

    A node in several partitions has several lines, and is one node.
    """
    answer = asker(SINFO)
    if not answer.good:
        return None
    rows = [line.strip().split("|", 1) for line in answer.out.splitlines() if "|" in line]
    uses = {name: parse_node_state(state).use for name, state in rows}
    return dict(Counter(uses.values()))
