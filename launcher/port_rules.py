"""Every listener of every node against every other, before anything is placed for real."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.engines import ENGINES
from launcher.placement import Placement
from launcher.plan import LaunchPlan
from launcher.ports import KV_EVENTS, Listener, clash_text, clashes, listeners, process_ports

EPHEMERAL = range(32768, 61000)
"""Linux takes ports of outgoing connections from here (net.ipv4.ip_local_port_range)."""


def all_listeners(plan: LaunchPlan, placement: Placement) -> list[Listener]:
    """What binds on which node."""
    nixl = ENGINES[plan.config.engine.kind].transfers_kv(plan)
    return listeners(placement, plan.config.cluster.ports, nixl)


def port_problems(plan: LaunchPlan, placement: Placement) -> Iterator[str]:
    """Ports that two listeners of a node would share, and ports that are none."""
    found, bases = all_listeners(plan, placement), plan.config.cluster.ports
    yield from _clashes(found)
    for process in placement.processes:
        window = process_ports(process, bases).internal or range(0)
        for listener in found:
            if listener.node == process.node and listener.port in window:
                yield (
                    f"cluster.ports: node {process.node}, port {listener.port}: {listener.owner} "
                    f"({listener.what}) lies in the internal window of {process.name}; move a base"
                )
        if window and window[-1] > 65535:
            yield (
                f"cluster.ports.internal={bases.internal}: the window of {process.name} is "
                f"{window[0]}..{window[-1]}; allowed: up to 65535"
            )
    for listener in found:
        if not 1024 <= listener.port <= 65535:
            yield (
                f"cluster.ports: {listener.owner} ({listener.what}) would listen on "
                f"{listener.port}; allowed: 1024 to 65535"
            )


def _clashes(found: list[Listener]) -> Iterator[str]:
    """Of publishers of KV events the first clash of each kind: one setting decides them all."""
    told: set[str] = set()
    for sharing in clashes(found):
        text, events = clash_text(sharing), [KV_EVENTS in item.what for item in sharing]
        if not any(events):
            yield f"cluster.ports: {text} would both listen there; move one of the bases"
        elif all(events) and "publishers" not in told:
            told.add("publishers")
            yield (
                f"kv-events-config: {text} would both listen there: vLLM adds the data-parallel "
                "rank to its port and nothing else, so endpoints on one node clash, whatever the "
                "port; leave the events out for that role, or give each endpoint a node of its own"
            )
        elif not all(events) and "ours" not in told:
            told.add("ours")
            yield (
                f"kv-events-config: {text} would both listen there; move the port in its endpoint "
                "(default 5557), or one of cluster.ports"
            )


def port_advice(plan: LaunchPlan, placement: Placement) -> Iterator[str]:
    """Ports that an outgoing connection of anyone may hold when the run wants them."""
    taken = [item for item in all_listeners(plan, placement) if item.port in EPHEMERAL]
    if taken:
        first = taken[0]
        yield (
            f"cluster.ports: {first.owner} ({first.what}) on {first.port} and {len(taken) - 1} "
            f"more lie in {EPHEMERAL.start}..{EPHEMERAL.stop - 1}, from which Linux takes ports of "
            "outgoing connections; use lower bases"
        )
