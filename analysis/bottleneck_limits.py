"""Every limit of the bottleneck rule, declared once (docs/find-the-bottleneck.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit of the rule, and why that much."""

    name: str
    value: float
    unit: str
    why: str


def _limit(name: str, value: float, unit: str, why: str) -> Limit:
    return Limit(name=name, value=value, unit=unit, why=why)


LOOKS_PER_RANK = _limit("looks_per_rank", 5, "looks", "a share of fewer looks says next to nothing")
BUSY = _limit(
    "busy", 0.9, "share of looks at a rank with a request in its batch",
    "a rank that idles a tenth of the time is not what limits the throughput",
)  # fmt: skip
QUEUED = _limit(
    "queued", 0.8, "share of looks at a rank with requests waiting",
    "a queue that never empties: more load would only make it longer. Random arrivals at a rank "
    "that keeps up find it empty more often than that",
)  # fmt: skip
KV_QUEUED = _limit(
    "kv_queued", 0.5, "share of looks at a decode rank with requests waiting",
    "blocks come free in batches, so a queue for them empties now and then",
)  # fmt: skip
KV_FULL = _limit(
    "kv_full", 0.9, "KV usage that a tenth of the looks reach",
    "vLLM admits a request only when its blocks fit: a full pool stands somewhat below 1",
)  # fmt: skip
HOLDS = _limit("holds", 0.5, "share of the requests in flight", "more than anywhere else together")
FETCHING = _limit(
    "fetching", 0.3, "share of the requests in flight whose KV is under way",
    "a transfer of 0.2 GB takes 10 ms and less over NVLink, a thousandth of an answer: a third "
    "means that transfers queue",
)  # fmt: skip
FRONTEND_CPU = _limit(
    "frontend_cpu", 0.8, "cores of one API server process",
    "vLLM's API server is one Python event loop: near one core it falls behind",
)  # fmt: skip
ANSWER_MS = _limit(
    "answer_ms", 500.0, "ms for a metrics page, median",
    "the same loop serves the page, in tens of ms when it is free",
)  # fmt: skip
AT_ROUTER = _limit(
    "at_router", 0.5, "share of the requests in flight that the router has under way",
    "where it has fewer, the client did not get round to sending them",
)  # fmt: skip

LIMITS = tuple(value for value in globals().values() if isinstance(value, Limit))
BY_LIMIT = {limit.name: limit for limit in LIMITS}
