"""Which GPUs of which node each endpoint gets: the allocation as one line of GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.errors import LauncherError
from launcher.plan import Endpoint, LaunchPlan
from launcher.steady import made_once


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcess:
    """The part of an endpoint that one node runs as one step."""

    endpoint: Endpoint
    node: int
    node_rank: int
    """Position of this node among the endpoint's nodes; 0 leads."""
    endpoint_nodes: int
    leader_node: int
    leader_gpu: int
    """First GPU of the endpoint on its leader's node."""
    gpus: tuple[int, ...]
    dp_ranks: tuple[int, ...]
    """Global data-parallel ranks that live here."""

    @property
    def name(self) -> str:
        """prefill0, or decode0-n0, decode0-n1 for endpoints over several nodes."""
        suffix = f"-n{self.node_rank}" if self.endpoint_nodes > 1 else ""
        return f"{self.endpoint.name}{suffix}"

    @property
    def leader(self) -> bool:
        """Whether this process leads its endpoint."""
        return self.node_rank == 0

    @property
    def spans_rank(self) -> bool:
        """Whether one rank is larger than a node (tensor parallel over nodes)."""
        return self.endpoint.gpus_per_rank > len(self.gpus)

    @property
    def serves_http(self) -> bool:
        """Whether clients can talk to this process; the others are headless."""
        hybrid = self.endpoint.load_balancing == "hybrid" and not self.spans_rank
        return self.leader or hybrid


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Processes on the nodes of one allocation."""

    nodes: int
    gpus_per_node: int
    processes: tuple[WorkerProcess, ...]

    @property
    def allocated_gpus(self) -> int:
        """All GPUs of the allocation, idle ones too."""
        return self.nodes * self.gpus_per_node


def address(node: int) -> str:
    """Stands for a node's cluster address in plan text; the job puts the real one in."""
    return f"{{node{node}.address}}"


def node_name(node: int) -> str:
    """Stands for a node's Slurm name in plan text."""
    return f"{{node{node}.name}}"


def gpu_ranges(endpoints: Iterable[Endpoint], gpus_per_node: int, share_nodes: bool) -> list[range]:
    """Where each endpoint sits on the line of GPUs (node = position // gpus_per_node).

    An endpoint that does not fit on what is left of a node starts on a fresh one; so does the
    first endpoint of each role, unless roles share nodes. Raises LauncherError where a rank
    cannot be cut at node ends.
    """
    ranges: list[range] = []
    position, role = 0, None
    for endpoint in endpoints:
        _check_cut(endpoint, gpus_per_node)
        left = -position % gpus_per_node
        fresh = endpoint.role != role and role is not None and not share_nodes
        if fresh or endpoint.gpus > left:
            position += left
        ranges.append(range(position, position + endpoint.gpus))
        position, role = position + endpoint.gpus, endpoint.role
    return ranges


def _check_cut(endpoint: Endpoint, gpus_per_node: int) -> None:
    """A rank lies within a node, or fills whole nodes."""
    size = endpoint.gpus_per_rank
    if size <= gpus_per_node and (gpus_per_node % size == 0 or endpoint.gpus <= gpus_per_node):
        return
    if size > gpus_per_node and size % gpus_per_node == 0 and endpoint.dp == 1:
        return
    raise LauncherError(
        f"topology.roles.{endpoint.role}: tp {endpoint.tp} x pp {endpoint.pp} = {size} "
        f"GPUs a rank, dp {endpoint.dp}, on nodes of {gpus_per_node} GPUs: a rank must divide a "
        f"node's GPUs, or fill whole nodes with dp 1; choose tp x pp of "
        f"{', '.join(str(n) for n in range(1, gpus_per_node + 1) if gpus_per_node % n == 0)}"
    )


@made_once
def place(plan: LaunchPlan) -> Placement:
    """Every endpoint cut into one process per node it touches."""
    per_node = plan.config.cluster.gpus_per_node
    ranges = gpu_ranges(plan.endpoints, per_node, plan.config.topology.share_nodes)
    processes: list[WorkerProcess] = []
    for endpoint, span in zip(plan.endpoints, ranges, strict=True):
        processes += _cut(endpoint, span, per_node)
    nodes = -(-max((span.stop for span in ranges), default=0) // per_node)
    return Placement(nodes=nodes, gpus_per_node=per_node, processes=tuple(processes))


def _cut(endpoint: Endpoint, span: range, per_node: int) -> list[WorkerProcess]:
    first, last = span.start // per_node, (span.stop - 1) // per_node
    processes: list[WorkerProcess] = []
    rank = 0
    for node in range(first, last + 1):
        low, high = max(span.start, node * per_node), min(span.stop, (node + 1) * per_node)
        ranks = max(1, (high - low) // endpoint.gpus_per_rank)
        dp_ranks = (0,) if endpoint.dp == 1 else tuple(range(rank, rank + ranks))
        processes.append(
            WorkerProcess(
                endpoint=endpoint,
                node=node,
                node_rank=node - first,
                endpoint_nodes=last - first + 1,
                leader_node=first,
                leader_gpu=span.start - first * per_node,
                gpus=tuple(range(low - node * per_node, high - node * per_node)),
                dp_ranks=dp_ranks,
            )
        )
        rank += ranks
    return processes
