"""Addresses, routes, devices and ports of this node."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.preflight.finding import Found, failed, passed, reason, skipped

INFINIBAND = Path("/sys/class/infiniband")


def network_checks(spec: dict[str, Any]) -> Iterator[Found]:
    """Whether the planned address is this node's, the others can be reached, ports are free."""
    address = spec["address"]
    try:
        bind(address, 0)
    except OSError as error:
        yield failed("address", f"{address}: {reason(error)}", "an address of this node")
        return
    yield passed("address", address)
    yield from _routes(spec)
    yield from _devices(spec["devices"])
    yield from port_checks(address, spec["listeners"])


def port_checks(address: str, listeners: list[dict[str, Any]]) -> Iterator[Found]:
    """Every port that the plan's processes will bind here, free now."""
    taken = [text for text in (_taken(address, entry) for entry in listeners) if text]
    if taken:
        yield failed("ports", "; ".join(taken), "free")
    elif listeners:
        yield passed("ports", f"{len(listeners)} free on {address}")
    else:
        yield skipped("ports", "nothing of the plan listens here")


def _taken(address: str, listener: dict[str, Any]) -> str | None:
    try:
        bind(address, listener["port"])
    except OSError as error:
        return f"{listener['port']} of {listener['owner']} ({listener['what']}): {reason(error)}"
    return None


def bind(address: str, port: int) -> None:
    """Listens for a moment as a server would; OSError when that is not possible."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        # As servers do: a connection of an earlier run in TIME_WAIT does not hold a port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1)


def _routes(spec: dict[str, Any]) -> Iterator[Found]:
    """A route to every other node's address; nothing is sent."""
    missing = []
    for name, address in spec["others"]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((address, 9))
        except OSError as error:
            missing.append(f"{name} ({address}): {reason(error)}")
    if missing:
        yield failed("routes", "; ".join(missing), "a route to every other node")
    elif spec["others"]:
        yield passed("routes", f"to {len(spec['others'])} nodes")


def _devices(wanted: list[str]) -> Iterator[Found]:
    """Network devices that the environment of the workers names (Gloo, UCX)."""
    if not wanted:
        return
    there = {name for _, name in socket.if_nameindex()}
    with contextlib.suppress(OSError):
        there |= {entry.name for entry in INFINIBAND.iterdir()}
    missing = [name for name in wanted if name not in there]
    if missing:
        yield failed(
            "network devices", f"no {', '.join(missing)}", f"one of {', '.join(sorted(there))}"
        )
    else:
        yield passed("network devices", ", ".join(wanted))
