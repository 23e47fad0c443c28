"""sbatch --segment: how many nodes must share one block, in nodes."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.placement import Placement
from launcher.plan import LaunchPlan


def segment_of(plan: LaunchPlan, placement: Placement) -> int | None:
    """The segment of an allocation, None where the site switches it off.

    `auto` takes the whole allocation where it fits one NVLink domain, else the largest divisor of
    the node count that does and that no endpoint is cut by. Slurm (sbatch(1), topology/block)
    wants a segment that divides the node count and fits one block.
    """
    setting = plan.config.cluster.segment
    domain, nodes = plan.config.cluster.nvlink_domain_nodes, placement.nodes
    if setting == "off":
        return None
    if setting != "auto":
        return _explicit(setting, nodes, domain)
    for size in range(min(nodes, domain), 0, -1):
        if nodes % size == 0 and not _cut_endpoints(placement, size):
            return size
    raise LauncherError(
        f"cluster.segment=auto: {nodes} nodes cannot be cut into equal segments of at most "
        f"{domain} nodes (one NVLink domain) without cutting an endpoint; use another topology, "
        "or cluster.segment=off to let ranks of one endpoint talk outside NVLink"
    )


def smaller_segments(placement: Placement, size: int) -> list[int]:
    """Divisors of the node count below `size` that cut no endpoint, the largest first."""
    return [
        smaller
        for smaller in range(min(size, placement.nodes) - 1, 0, -1)
        if placement.nodes % smaller == 0 and not _cut_endpoints(placement, smaller)
    ]


def _explicit(setting: str, nodes: int, domain: int) -> int:
    if not (setting.isascii() and setting.isdigit()) or int(setting) < 1:
        raise LauncherError(
            f"cluster.segment={setting!r}: allowed: auto, off, or a number of nodes"
        )
    size = int(setting)
    if size > domain:
        raise LauncherError(
            f"cluster.segment={size}: one NVLink domain has {domain} nodes "
            "(cluster.nvlink_domain_nodes); a segment is counted in nodes, not GPUs"
        )
    if nodes % size and nodes > size:
        divisors = [str(n) for n in range(1, min(nodes, domain) + 1) if nodes % n == 0]
        raise LauncherError(
            f"cluster.segment={size}: does not divide the {nodes} nodes of this topology; "
            f"allowed: {', '.join(divisors)}, auto or off"
        )
    return size


def _cut_endpoints(placement: Placement, size: int) -> bool:
    return any(
        process.node // size != process.leader_node // size for process in placement.processes
    )
