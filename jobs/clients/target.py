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
    """`tls`: None for plain HTTP. Lengths are by request number; `wait_s` only in conversations."""

    host: str
    port: int
    name: str
    tls: ssl.SSLContext | None
    bodies: Bodies
    load: Load
    prompt_tokens: npt.NDArray[np.int32]
    output_tokens: npt.NDArray[np.int32]
    wait_s: npt.NDArray[np.float64] | None


async def find_target(load: Load, prompts: PromptFile, api_key: str | None) -> Target:
    """The first address of the load's server; OSError where its name has none."""
    scheme, name, port = load.where()
    found = await asyncio.get_running_loop().getaddrinfo(
        name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )
    return Target(
        host=str(found[0][4][0]),
        port=port,
        name=name,
        tls=ssl.create_default_context() if scheme == "https" else None,
        bodies=Bodies(load, prompts, api_key),
        load=load,
        prompt_tokens=prompts.prompt_tokens,
        output_tokens=prompts.output_tokens,
        wait_s=prompts.wait_s if prompts.form == "messages" else None,
    )
