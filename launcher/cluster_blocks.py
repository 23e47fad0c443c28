"""Asks Slurm for its blocks and for the nodes of them that a job may use."""

from __future__ import annotations

import subprocess

from launcher.blocks import block_nodes
from launcher.schema import ClusterConfig

ASK_S = 20


def read_blocks(cluster: ClusterConfig) -> dict[str, int] | None:
    """Nodes a block, without those of other partitions and excluded ones; None when not told."""
    topology = _ask("scontrol", "show", "topology")
    lists = block_nodes(topology) if topology else {}
    if not lists:
        return None
    asked = ["sinfo", "--noheader", "--Node", "--format=%N"]
    if cluster.partition:
        asked.append(f"--partition={cluster.partition}")
    listed = _ask(*asked)
    excluded = _names(cluster.exclude) if cluster.exclude else set()
    usable = set(listed.split()) - excluded if listed else None
    blocks: dict[str, int] = {}
    for name, nodes in lists.items():
        inside = _names(nodes)
        blocks[name] = len(inside if usable is None else inside & usable)
    return {name: count for name, count in blocks.items() if count}


def _names(nodelist: str) -> set[str]:
    """Host names as scontrol itself expands them: ranges keep their zeros."""
    return set((_ask("scontrol", "show", "hostnames", nodelist) or "").split())


def _ask(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
