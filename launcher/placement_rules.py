"""Whether the topology fits its nodes: GPUs, segment, ranks, ports."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.errors import LauncherError
from launcher.placement import Placement, place
from launcher.plan import build_plan
from launcher.port_rules import port_advice, port_problems
from launcher.schema import LaunchConfig
from launcher.segment import segment_of


def arithmetic(config: LaunchConfig) -> Iterator[str]:
    """GPUs, nodes, segment and ports of the plan."""
    try:
        plan = build_plan(config)
        placement = place(plan)
    except LauncherError as error:
        yield str(error)
        return
    try:
        segment_of(plan, placement)
    except LauncherError as error:
        yield str(error)
    yield from lonely_ranks(placement)
    yield from port_problems(plan, placement)


def lonely_ranks(placement: Placement) -> Iterator[str]:
    """Hybrid load balancing needs two ranks a node: with one, vLLM 0.32 dies while starting."""
    roles = {
        process.endpoint.role: process
        for process in placement.processes
        if process.endpoint_nodes > 1
        and process.endpoint.load_balancing == "hybrid"
        and not process.spans_rank
        and len(process.dp_ranks) == 1
    }
    for role, process in roles.items():
        yield (
            f"topology.roles.{role}.load_balancing=hybrid: {process.name} holds one rank of its "
            "endpoint's ranks on its node, and vLLM starts hybrid load balancing with two or more "
            "only; use internal, or a dp that fills nodes evenly"
        )


def crowded_ports(config: LaunchConfig) -> Iterator[str]:
    """Ports that may be taken by then."""
    plan = build_plan(config)
    yield from port_advice(plan, place(plan))


def segment_has_effect(config: LaunchConfig) -> Iterator[str]:
    """A segment as large as the job or larger asks the scheduler for nothing."""
    if not (config.cluster.segment.isascii() and config.cluster.segment.isdigit()):
        return
    nodes = place(build_plan(config)).nodes
    if int(config.cluster.segment) > nodes:
        gpus = place(build_plan(config)).allocated_gpus
        counted = (
            " (it looks like the number of GPUs)" if gpus == int(config.cluster.segment) else ""
        )
        yield (
            f"cluster.segment={config.cluster.segment}: larger than the job's {nodes} nodes, so it "
            f"holds nothing together{counted}; use auto ({nodes}), off, or a divisor of {nodes}"
        )


def second_choices_have_effect(config: LaunchConfig) -> Iterator[str]:
    """What to do instead of failing, asked for where it cannot happen."""
    if config.on_bad_node == "exclude" and config.cluster.executor == "local":
        yield "on_bad_node=exclude: has no effect with cluster.executor=local: one machine is all"
    if config.cluster.segment_fallback != "none" and config.cluster.segment == "off":
        yield (
            f"cluster.segment_fallback={config.cluster.segment_fallback}: has no effect with "
            "cluster.segment=off; use cluster.segment=auto"
        )
