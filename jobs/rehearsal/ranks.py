"""Data parallel ranks: their load, their pace and their counters."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from jobs.rehearsal.options import KV_TOKENS, MAX_SEQS, Options
from jobs.rehearsal.pool import Pool
from jobs.rehearsal.side_channel import StateStore

KV_BYTES_PER_TOKEN = 30_720
KV_BYTES_PER_REQUEST = 97_689_600
"""What one request moves, in bytes: attention per token, recurrent state per request."""


@dataclass(slots=True)
class Counts:
    """One rank's counters since start; seconds and bytes where the name says so."""

    local_compute: int = 0
    local_cache_hit: int = 0
    external: int = 0
    generation: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    transfers: int = 0
    transfer_bytes: int = 0
    transfer_s: float = 0.0
    failed_transfers: int = 0
    external_queries: int = 0
    queued: int = 0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    @property
    def prompt(self) -> int:
        """Prompt tokens from all sources."""
        return self.local_compute + self.local_cache_hit + self.external


class Stage(StrEnum):
    """Where a request stands on a rank; all but RUNNING are what vLLM calls waiting."""

    QUEUED = "queued"
    FETCH_WAITING = "waiting_to_start"
    FETCHING = "in_progress"
    FETCHED = "completed_waiting"
    RUNNING = "running"


class Line:
    """Something that serves one after the other: a rank that reads prompts, a link."""

    def __init__(self) -> None:
        self.free_at = 0.0

    def book(self, amount: float, per_s: float) -> float:
        """When `amount` is done, in time.monotonic() seconds, at `per_s` after what came before."""
        self.free_at = max(time.monotonic(), self.free_at) + amount / per_s
        return self.free_at


@dataclass(slots=True)
class Rank:
    """One engine of the endpoint; `nixl_port` is None where it has no side channel.

    `store` is None for a rank that lives in another process of the endpoint. `kv` holds tokens,
    `seats` the requests that may run at once.
    """

    number: int
    nixl_host: str
    nixl_port: int | None
    store: StateStore | None
    kv: Pool = field(default_factory=lambda: Pool(KV_TOKENS))
    seats: Pool = field(default_factory=lambda: Pool(MAX_SEQS))
    counts: Counts = field(default_factory=Counts)
    stages: Counter[Stage] = field(default_factory=Counter)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    reader: Line = field(default_factory=Line)
    link: Line = field(default_factory=Line)

    @property
    def load(self) -> int:
        """Requests here now."""
        return self.stages.total()

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return self.stages[Stage.RUNNING]

    @property
    def waiting(self) -> int:
        """Requests that are here and not in the batch."""
        return self.load - self.running

    def count_transfer(self, tokens: int, seconds: float) -> None:
        """One state arrived."""
        self.counts.transfers += 1
        self.counts.transfer_bytes += transfer_bytes(tokens)
        self.counts.transfer_s += seconds


def new_rank(
    options: Options, number: int, host: str, port: int | None, store: StateStore | None
) -> Rank:
    """A rank with the room its options give it."""
    kv, seats = Pool(options.kv_tokens), Pool(options.max_seqs)
    return Rank(number, host, port, store, kv, seats)


def transfer_bytes(tokens: int) -> int:
    """What one request moves."""
    return tokens * KV_BYTES_PER_TOKEN + KV_BYTES_PER_REQUEST


class Visit:
    """One request's stay on a rank, stage by stage; at the end it gives back what it holds."""

    def __init__(self, rank: Rank, tokens: int) -> None:
        self.rank = rank
        self.tokens = tokens
        self.stage = Stage.QUEUED
        self.came = self.since = time.monotonic()
        self._kv = 0
        self._seats = 0

    def __enter__(self) -> Self:
        self.rank.stages[self.stage] += 1
        return self

    def enter(self, stage: Stage) -> None:
        """The stage it is in from now on."""
        self.rank.stages[self.stage] -= 1
        self.rank.stages[stage] += 1
        self.stage, self.since = stage, time.monotonic()

    async def allocate(self) -> None:
        """Holds its KV from here on."""
        await self.rank.kv.take(self.tokens)
        self._kv = self.tokens

    async def admit(self) -> None:
        """Takes a seat in the batch: it runs."""
        await self.rank.seats.take(1)
        self._seats = 1
        self.enter(Stage.RUNNING)
        self.rank.counts.queued += 1
        self.rank.counts.queue_s += time.monotonic() - self.came

    def read(self) -> None:
        """Its prompt is read: what follows is decode."""
        now = time.monotonic()
        self.rank.counts.prefill_s += now - self.since
        self.since = now

    def pin(self) -> Callable[[], None]:
        """Its KV stays when it goes, until the function returned is called."""
        kept, self._kv = self._kv, 0
        return lambda: self.rank.kv.give(kept)

    def __exit__(self, *_: object) -> None:
        if self.stage is Stage.RUNNING:
            self.rank.counts.decode_s += time.monotonic() - self.since
        self.rank.stages[self.stage] -= 1
        self.rank.kv.give(self._kv)
        self.rank.seats.give(self._seats)


async def sleep_until(moment: float) -> None:
    """Sleeps until time.monotonic() says `moment`; below a millisecond not at all."""
    wait = moment - time.monotonic()
    if wait > 0.001:
        await asyncio.sleep(wait)


class RankError(ValueError):
    """A rank that is not here; vLLM answers 400."""


def pick_rank(ranks: Sequence[Rank], asked: str | None) -> Rank:
    """The rank a request goes to.

    X-data-parallel-rank is an index into the ranks this API server serves, as in vLLM (local
    under hybrid load balancing); without it the least loaded one.
    """
    if asked is None:
        return min(ranks, key=lambda rank: (rank.load, rank.counts.finished.total()))
    if not asked.isdecimal() or int(asked) >= len(ranks):
        raise RankError(f"data_parallel_rank {asked} is out of range [0, {len(ranks)}).")
    return ranks[int(asked)]
