"""Data parallel ranks: their load, their pace and their counters."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from jobs.rehearsal.side_channel import StateStore

KV_BYTES_PER_TOKEN = 30_720
KV_BYTES_PER_REQUEST = 97_689_600
"""What one request moves, in bytes: attention per token, recurrent state per request."""

KV_CAPACITY_TOKENS = 1_000_000


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

    @property
    def prompt(self) -> int:
        """Prompt tokens from all sources."""
        return self.local_compute + self.local_cache_hit + self.external


@dataclass(slots=True)
class Rank:
    """One engine of the endpoint; `nixl_port` is None where it has no side channel.

    `store` is None for a rank that lives in another process of the endpoint.
    """

    number: int
    nixl_host: str
    nixl_port: int | None
    store: StateStore | None
    counts: Counts = field(default_factory=Counts)
    waiting: int = 0
    running: int = 0
    tokens_held: int = 0
    free_at: float = 0.0

    @property
    def load(self) -> int:
        """Requests here now."""
        return self.waiting + self.running

    def book(self, tokens: int, tokens_per_s: float) -> tuple[float, float]:
        """When this rank, one prompt after the other, begins and ends to read `tokens`.

        In time.monotonic() seconds.
        """
        begin = max(time.monotonic(), self.free_at)
        self.free_at = begin + tokens / tokens_per_s
        return begin, self.free_at

    def count_transfer(self, tokens: int, seconds: float) -> None:
        """One state arrived."""
        self.counts.transfers += 1
        self.counts.transfer_bytes += tokens * KV_BYTES_PER_TOKEN + KV_BYTES_PER_REQUEST
        self.counts.transfer_s += seconds


class Visit:
    """One request's stay on a rank: waiting first, running once admitted, gone at the end."""

    def __init__(self, rank: Rank, tokens: int) -> None:
        self.rank = rank
        self.tokens = tokens
        self.admitted = False

    def __enter__(self) -> Self:
        self.rank.waiting += 1
        return self

    def admit(self) -> None:
        """From waiting to running; from here on it holds KV cache."""
        if not self.admitted:
            self.admitted = True
            self.rank.waiting -= 1
            self.rank.running += 1
            self.rank.tokens_held += self.tokens

    def __exit__(self, *_: object) -> None:
        self.admit()
        self.rank.running -= 1
        self.rank.tokens_held -= self.tokens


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
