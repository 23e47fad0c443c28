"""The address under which a Slurm node is reached, resolved once and on one machine."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence

from jobs.errors import JobError

NODE_ADDR = re.compile(r"(?:^|\s)NodeAddr=(\S+)")


async def node_address(name: str, asker: Callable[[Sequence[str]], Awaitable[str]]) -> str:
    """The IP address of Slurm node `name`: its NodeAddr, resolved here."""
    answer = await asker(["scontrol", "show", "node", name])
    found = set(NODE_ADDR.findall(answer))
    if len(found) != 1:
        raise JobError(
            f"node {name}: `scontrol show node {name}` names {len(found)} addresses, "
            f"expected one NodeAddr=; it said: {answer.strip()[:300]!r}"
        )
    return await resolve(found.pop(), name)


async def resolve(host: str, name: str) -> str:
    """`host` as one IP address, IPv4 before IPv6; JobError when it resolves to nothing."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise JobError(f"node {name}: its address {host!r} does not resolve: {error}") from error
    infos.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(infos[0][4][0])
