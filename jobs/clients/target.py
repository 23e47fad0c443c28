"""Where requests go and what they ask: the resolved server, its requests' bytes, their lengths."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jobs.clients.bodies import Bodies
from jobs.clients.load import Load
from jobs.prompts.reader import PromptFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`tls`: None for plain HTTP. Lengths are by request number; `wait_s` only in conversations.

    `unknown`: why the server's name has no address; empty where it has one.
    """

    host: str
    port: int
    name: str
    tls: ssl.SSLContext | None
    bodies: Bodies
    load: Load
    prompt_tokens: npt.NDArray[np.int32]
    output_tokens: npt.NDArray[np.int32]
    wait_s: npt.NDArray[np.float64] | None
    unknown: str = ""


async def find_target(load: Load, prompts: PromptFile, api_key: str | None) -> Target:
    """The load's server at the first of its addresses that takes a connection, or its first one."""
    scheme, name, port = load.where()
    unknown = ""
    try:
        host = await reached(await _addresses(name, port), port, load)
    except socket.gaierror as error:
        host, unknown = name, f"{name}: {error}"
    return Target(
        host=host,
        port=port,
        name=name,
        tls=ssl.create_default_context() if scheme == "https" else None,
        bodies=Bodies(load, prompts, api_key),
        load=load,
        prompt_tokens=prompts.prompt_tokens,
        output_tokens=prompts.output_tokens,
        wait_s=prompts.wait_s if prompts.form == "messages" else None,
        unknown=unknown,
    )


async def _addresses(name: str, port: int) -> list[str]:
    """Each once, as the system prefers them; socket.gaierror where there is none."""
    found = await asyncio.get_running_loop().getaddrinfo(
        name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def reached(addresses: list[str], port: int, load: Load) -> str:
    """The first that takes a connection (`localhost` is ::1 and 127.0.0.1, servers listen on one).

    The only one is not tried: whether it answers is for the requests to tell.
    """
    for address in addresses[: len(addresses) if len(addresses) > 1 else 0]:
        try:
            async with asyncio.timeout(load.connect_limit_s):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        return address
    return addresses[0]
