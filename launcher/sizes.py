"""The topology against the allocation: nodes, NVLink domains, CPUs, sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from launcher.errors import LauncherError
from launcher.placement import Placement, place
from launcher.plan import build_plan
from launcher.schema import LaunchConfig, RoleConfig


def allocation(config: LaunchConfig) -> Iterator[str]:
    """The topology fills the nodes that `cluster.nodes` expects, neither more nor fewer."""
    wanted = config.cluster.nodes
    if wanted is None:
        return
    try:
        placement = place(build_plan(config))
    except LauncherError:  # told by the rule that checks the placement
        return
    needed = placement.nodes
    if needed == wanted:
        return
    text = f"cluster.nodes={wanted}: the topology needs {needed} nodes of {_sum(config, placement)}"
    if needed > wanted:
        yield f"{text}; {_remedy(config, wanted, 'the allocation')}, or set cluster.nodes={needed}"
    else:
        idle = (wanted - needed) * config.cluster.gpus_per_node
        yield (
            f"{text}, so that {idle} GPUs would stay idle; use more endpoints or a larger dp, or "
            f"set cluster.nodes={needed} (null: as many as needed)"
        )


def one_domain(config: LaunchConfig) -> Iterator[str]:
    """All of a disaggregated run in one NVLink domain, or KV crosses a slower network."""
    placement, domain = place(build_plan(config)), config.cluster.nvlink_domain_nodes
    if placement.nodes <= domain or "prefill" not in config.topology.roles:
        return
    yield (
        f"cluster.nvlink_domain_nodes={domain}: the topology needs {placement.nodes} nodes of "
        f"{_sum(config, placement)}, so that KV between some endpoints leaves NVLink; "
        f"{_remedy(config, domain, 'one domain')}"
    )


def _sum(config: LaunchConfig, placement: Placement) -> str:
    """4 GPUs: prefill 4 x (tp 1 x pp 1 x dp 2) = 8, decode 1 x (...) = 8."""
    parts = [f"{name} {_product(shape)}" for name, shape in config.topology.roles.items()]
    return f"{placement.gpus_per_node} GPUs for {', '.join(parts)}"


def _product(shape: RoleConfig) -> str:
    gpus = shape.endpoints * shape.tp * shape.pp * shape.dp
    return f"{shape.endpoints} x (tp {shape.tp} x pp {shape.pp} x dp {shape.dp}) = {gpus} GPUs"


def _remedy(config: LaunchConfig, nodes: int, what: str) -> str:
    most = fitting_endpoints(config, nodes)
    if most is None:
        return f"nothing of this shape fits {what}: use a smaller dp, tp or pp"
    role = next(iter(config.topology.roles))
    return f"{what} holds at most topology.roles.{role}.endpoints={most}"


def fitting_endpoints(config: LaunchConfig, nodes: int) -> int | None:
    """How many endpoints of the first role fit beside the others; None where not one does."""
    role = next(iter(config.topology.roles))
    shapes = config.topology.roles
    low, high = 0, shapes[role].endpoints
    while low < high:
        middle = (low + high + 1) // 2
        tried = shapes | {role: replace(shapes[role], endpoints=middle)}
        trial = replace(config, topology=replace(config.topology, roles=tried))
        if place(build_plan(trial)).nodes <= nodes:
            low = middle
        else:
            high = middle - 1
    return low or None


def cpus(config: LaunchConfig) -> Iterator[str]:
    """Slurm steps get CPUs by `cluster.cpus_per_node`; one each without it."""
    cluster = config.cluster
    if cluster.executor != "slurm":
        return
    if cluster.cpus_per_node is None:
        yield (
            "cluster.cpus_per_node=null: every step asks Slurm for 1 CPU, however many GPUs it "
            "drives; set it to the CPUs of one node"
        )
    elif cluster.cpus_per_node < cluster.gpus_per_node:
        yield (
            f"cluster.cpus_per_node={cluster.cpus_per_node}: fewer than the node's "
            f"{cluster.gpus_per_node} GPUs; a whole node's CPUs are meant"
        )


def sequences(config: LaunchConfig) -> Iterator[str]:
    """Decode can run the sweep's concurrency, as far as max-num-seqs goes."""
    plan = build_plan(config)
    top = max(config.workload.concurrency, default=0)
    for role in ("decode", "aggregated"):
        endpoint = next((e for e in plan.endpoints if e.role == role), None)
        value = endpoint.flags.get("max-num-seqs") if endpoint else None
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        ranks = plan.role_ranks(role)
        if value * ranks < top:
            yield (
                f"flags.roles.{role}.max-num-seqs={value}: {ranks} ranks run {value * ranks} "
                f"requests at once, and workload.concurrency asks for {top}: the rest waits; raise "
                f"it to {-(-top // ranks)}, or lower the concurrency"
            )
