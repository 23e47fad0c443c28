"""Every port of a run, as a pure function of the configured bases and the placement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.placement import Placement, WorkerProcess
from launcher.schema import PortsConfig

INTERNAL_WINDOW = 50
"""Ports an engine may take upwards of VLLM_PORT for its own sockets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPorts:
    """Ports of one worker process, on its own node's address."""

    http: int | None
    rpc: int
    """Data-parallel RPC of the endpoint, on the leader's address."""
    nixl_base: int
    nixl: tuple[int, ...]
    """Side channels: nixl_base + global DP rank, for the ranks here."""
    internal: range | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One port that something binds on a node."""

    node: int
    port: int
    owner: str
    what: str


def process_ports(process: WorkerProcess, bases: PortsConfig) -> ProcessPorts:
    """The ports of a worker process.

    NIXL's listener adds the global data-parallel rank to the configured port by itself (vLLM
    0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/base_scheduler.py), so the base is the
    same on all nodes of an endpoint, and bases of endpoints lie as far apart as they have ranks.
    """
    base = bases.nixl + process.endpoint.rank_offset
    single = process.endpoint_nodes == 1
    first = process.gpus[0]
    return ProcessPorts(
        http=bases.http + first if process.serves_http else None,
        rpc=bases.rpc + process.leader_gpu,
        nixl_base=base,
        nixl=tuple(base + rank for rank in process.dp_ranks)
        if process.leader or not process.spans_rank
        else (),
        internal=range(
            bases.internal + INTERNAL_WINDOW * first,
            bases.internal + INTERNAL_WINDOW * (first + 1),
        )
        if single
        else None,
    )


def listeners(placement: Placement, bases: PortsConfig, nixl: bool) -> list[Listener]:
    """All ports bound on all nodes of the run, router on node 0 included."""
    found = [
        Listener(node=0, port=bases.router, owner="router", what="http"),
        Listener(node=0, port=bases.router_metrics, owner="router", what="metrics"),
    ]
    for process in placement.processes:
        ports = process_ports(process, bases)
        entries: list[tuple[int, str]] = []
        if ports.http is not None:
            entries.append((ports.http, "http"))
        if process.leader and process.endpoint.dp > 1:
            entries.append((ports.rpc, "data parallel rpc"))
        if process.leader and process.spans_rank:
            entries.append((ports.rpc, "tensor parallel rendezvous"))
        entries += _kv_events(process)
        if nixl:
            entries += [
                (port, f"nixl side channel rank {rank}")
                for port, rank in zip(ports.nixl, process.dp_ranks, strict=False)
            ]
        found += [
            Listener(node=process.node, port=port, owner=process.name, what=what)
            for port, what in entries
        ]
    return found


KV_EVENTS = "kv events"


def _kv_events(process: WorkerProcess) -> list[tuple[int, str]]:
    """KV event publishers: the endpoint's port + global DP rank (vLLM 0.33.0
    distributed/kv_events.py, offset_endpoint_port; default tcp://*:5557)."""
    config = process.endpoint.flags.get("kv-events-config")
    if not isinstance(config, Mapping) or config.get("enable_kv_cache_events") is not True:
        return []
    entries: list[tuple[int, str]] = []
    for key, default in (("endpoint", "tcp://*:5557"), ("replay_endpoint", "")):
        port = str(config.get(key) or default).rpartition(":")[2]
        if port.isascii() and port.isdigit():
            entries += [
                (int(port) + rank, f"{KV_EVENTS} {key} rank {rank}") for rank in process.dp_ranks
            ]
    return entries


def clashes(found: list[Listener]) -> list[list[Listener]]:
    """Listeners of one node that would share a port, by node and port."""
    by_place: dict[tuple[int, int], list[Listener]] = defaultdict(list)
    for listener in found:
        by_place[listener.node, listener.port].append(listener)
    return [sharing for _, sharing in sorted(by_place.items()) if len(sharing) > 1]


def clash_text(sharing: list[Listener]) -> str:
    """Where listeners clash, and which."""
    names = " and ".join(f"{item.owner} ({item.what})" for item in sharing)
    return f"node {sharing[0].node}, port {sharing[0].port}: {names}"
