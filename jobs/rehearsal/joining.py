"""How the processes of one endpoint find each other: everybody connects to the leader and stays.

The leader is ready once all ranks are there. Whoever loses the connection reports it, as vLLM's
processes do not outlive each other.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time

from jobs.rehearsal.options import Options
from jobs.rehearsal.ranks import Rank, new_rank

JOIN_TIMEOUT_S = 600.0
RETRY_S = 0.2

log = logging.getLogger(__name__)


class JoinError(Exception):
    """An endpoint that did not come together, or fell apart; the text names who is missing."""


def is_leader(options: Options) -> bool:
    """The process with rank 0 leads."""
    return options.dp_start == 0 and not options.headless


def must_join(options: Options) -> bool:
    """This endpoint has several processes and was told where they meet."""
    return options.rpc_port is not None and options.dp_local < options.dp


class Endpoint:
    """The leader's view of the other processes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.joined: set[int] = set(options.local_ranks)
        self.remote: list[Rank] = []
        self.complete = asyncio.Event()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def gather(self) -> list[Rank]:
        """Ranks of the headless processes once every rank is there; JoinError after 600 s."""
        address = self.options.rpc_address or self.options.host
        await asyncio.start_server(self._welcome, address, self.options.rpc_port)
        try:
            async with asyncio.timeout(JOIN_TIMEOUT_S):
                await self.complete.wait()
        except TimeoutError:
            missing = sorted(set(range(self.options.dp)) - self.joined)
            raise JoinError(f"ranks {missing} did not join within {JOIN_TIMEOUT_S:.0f} s") from None
        return sorted(self.remote, key=lambda rank: rank.number)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = json.loads(await reader.readline())
        ranks = range(hello["start"], hello["start"] + hello["local"])
        log.info("ranks %d..%d joined", ranks[0], ranks[-1])
        self.joined.update(ranks)
        if hello["headless"]:
            base = hello["nixl_base"]
            self.remote += [
                new_rank(
                    self.options, r, hello["nixl_host"], None if base is None else base + r, None
                )
                for r in ranks
            ]
        if len(self.joined) >= self.options.dp:
            self.complete.set()
        await _until_closed(reader)
        writer.close()
        if not self.lost.done():
            self.lost.set_result(f"the process of ranks {ranks[0]}..{ranks[-1]} went away")


async def join(options: Options) -> asyncio.Task[str]:
    """Connects to the leader, trying for 600 s; the task ends, with the reason, when it is gone."""
    address, port = options.rpc_address or options.host, options.rpc_port
    hello = {
        "start": options.dp_start,
        "local": options.dp_local,
        "headless": options.headless,
        "nixl_host": options.nixl_host,
        "nixl_base": options.nixl_base,
    }
    until = time.monotonic() + JOIN_TIMEOUT_S
    while True:
        try:
            reader, writer = await asyncio.open_connection(address, port)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise JoinError(f"no leader at {address}:{port}: {error}") from error
            await asyncio.sleep(RETRY_S)
    writer.write(json.dumps(hello).encode() + b"\n")
    await writer.drain()

    async def watch() -> str:
        await _until_closed(reader)
        writer.close()
        return f"the leader at {address}:{port} went away"

    return asyncio.create_task(watch())


async def _until_closed(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1024):
            pass
    except ConnectionError:
        return
