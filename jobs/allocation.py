"""Which nodes this run has, asked once: the only reader of Slurm's environment."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs.addresses import node_address
from jobs.errors import JobError
from jobs.slurm_ask import OUT_OF_REACH

log = logging.getLogger("jobs")

ASK_TIMEOUT_S = 30.0
PATIENCE_S = 300.0
"""How long the controller may be away when the driver begins."""

HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NO_NODES = ("", "(null)", "None assigned", "None", "assigned")

Ask = Callable[[Sequence[str]], Awaitable[str]]
"""Runs a command and returns its standard output; JobError when it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of the allocation; `address` is what others connect to."""

    index: int
    name: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """allocation.json. Nodes stand in Slurm's order."""

    job_id: str | None
    nodes: list[Node]
    started_at: str
    end_time: float | None = None
    cpus: list[int] | None = None

    @property
    def length_s(self) -> float | None:
        """From here to the job's end."""
        if self.end_time is None:
            return None
        return self.end_time - datetime.datetime.fromisoformat(self.started_at).timestamp()


def utc_now() -> str:
    """The time as records carry it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


async def ask(command: Sequence[str]) -> str:
    """Standard output alone: Slurm's remarks on standard error must never end up in an address."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise JobError(f"cannot run {command[0]}: {error}") from error
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise JobError(f"{' '.join(command)} gave no answer within {ASK_TIMEOUT_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        said = err.decode(errors="replace").strip()[-500:]
        raise JobError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return out.decode(errors="replace")


async def ask_patiently(command: Sequence[str]) -> str:
    """As `ask`, but a controller that is away is asked again, ever more slowly, for PATIENCE_S."""
    until, pause = time.monotonic() + PATIENCE_S, 1.0
    while True:
        try:
            return await ask(command)
        except JobError as error:
            away = any(words in str(error) for words in (*OUT_OF_REACH, "gave no answer within"))
            if not away or time.monotonic() > until:
                raise
            log.warning("%s; asked again in %.0f s", error, pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, 15.0)


def local_allocation(count: int, run_id: str) -> Allocation:
    """Logical nodes of this machine: a loopback address each, so ports are those of a cluster.

    The addresses lie in a /24 of the run's own, so that two runs on one machine share none.
    """
    name = socket.gethostname()
    block = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:2], "big")
    prefix = f"127.{1 + block // 256 % 254}.{block % 256}"
    nodes = [Node(index=i, name=name, address=f"{prefix}.{1 + i}") for i in range(count)]
    return Allocation(job_id=None, nodes=nodes, started_at=utc_now())


async def slurm_allocation(
    count: int, environ: Mapping[str, str], asker: Ask = ask_patiently
) -> Allocation:
    """The nodes of the Slurm job this process runs in; JobError unless there are `count`."""
    job_id = environ.get("SLURM_JOB_ID")
    if not job_id:
        raise JobError(
            "the plan is for Slurm, but SLURM_JOB_ID is not set: "
            "start this inside the job (sbatch or salloc)"
        )
    names = await expand_nodelist(environ.get("SLURM_JOB_NODELIST", ""), asker)
    _same_count(names, environ.get("SLURM_JOB_NUM_NODES"), count)
    addresses = await asyncio.gather(*(node_address(name, asker) for name in names))
    nodes = [
        Node(index=i, name=name, address=address)
        for i, (name, address) in enumerate(zip(names, addresses, strict=True))
    ]
    end_time = await job_end_time(job_id, environ, asker)
    return Allocation(
        job_id=job_id,
        nodes=nodes,
        started_at=utc_now(),
        end_time=end_time,
        cpus=cpus_per_node(environ.get("SLURM_JOB_CPUS_PER_NODE", ""), len(nodes)),
    )


async def job_end_time(job_id: str, environ: Mapping[str, str], asker: Ask = ask) -> float | None:
    """When Slurm will end the job, in seconds since 1970; None when it does not tell."""
    told = environ.get("SLURM_JOB_END_TIME", "")
    if told.isdecimal():
        return float(told)
    try:
        found = re.search(r"EndTime=(\S+)", await asker(["scontrol", "show", "job", job_id]))
        return datetime.datetime.fromisoformat(found[1]).timestamp() if found else None
    except (JobError, ValueError):
        return None


async def expand_nodelist(nodelist: str, asker: Ask = ask) -> list[str]:
    """Host names exactly as `scontrol show hostnames` gives them, each once, in its order.

    scontrol echoes place-holders and broken lists with exit code 0, so both its input and its
    answer are looked at.
    """
    text = nodelist.strip()
    if text in NO_NODES:
        raise JobError(f"SLURM_JOB_NODELIST is {nodelist!r}: the job has no nodes")
    answer = (await asker(["scontrol", "show", "hostnames", text])).split()
    names = list(dict.fromkeys(answer))
    odd = [name for name in names if not HOST_NAME.fullmatch(name)]
    if not names or odd or text.count("[") != text.count("]"):
        raise JobError(
            f"SLURM_JOB_NODELIST {nodelist!r} is no list of nodes: scontrol made {answer} of it"
        )
    return names


def _same_count(names: Sequence[str], slurm_says: str | None, plan_says: int) -> None:
    if slurm_says is not None and slurm_says.strip() != str(len(names)):
        raise JobError(
            f"the node list has {len(names)} nodes ({', '.join(names)}), "
            f"but SLURM_JOB_NUM_NODES is {slurm_says}"
        )
    if len(names) != plan_says:
        raise JobError(
            f"the plan needs {plan_says} nodes, the allocation has {len(names)}: {', '.join(names)}"
        )


def cpus_per_node(text: str, count: int) -> list[int] | None:
    """SLURM_JOB_CPUS_PER_NODE ("72(x2),36") as one number a node; None when it does not fit."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            return None
        found += [int(match[1])] * int(match[2] or 1)
    return found if len(found) == count else None
