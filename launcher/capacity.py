"""What fits into one GPU and one deployment, as an engine worked it out. None is "not known"."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One quantity over the workload's lengths: shortest request, average, longest request."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCapacity:
    """One role. Bytes are of one GPU, blocks and sequences of one data-parallel rank."""

    role: str
    ranks: int
    """Data-parallel ranks of all endpoints of the role."""
    max_model_len: int | None = None
    """Tokens a request may have, prompt and answer together."""
    max_num_seqs: int | None = None
    """Sequences the scheduler runs at once on a rank, by flag or by the release's default."""
    memory_bytes: int | None = None
    utilization: float | None = None
    """Share of the GPU's memory that the engine takes."""
    reserve_bytes: int | None = None
    """What is kept for activations and graphs: engine.memory_reserve_gib, not a measurement."""
    weights_bytes: int | None = None
    pool_bytes: int | None = None
    """Memory for KV blocks."""
    pool_from: str = ""
    """The flag or key that decides pool_bytes."""
    kv_dtype: str | None = None
    state_dtypes: tuple[str, str] | None = None
    """Of the convolution's state and of the recurrent state; None without linear attention."""
    kv_bytes_per_token: int | None = None
    """Over all attention layers of the GPU."""
    state_bytes: int | None = None
    """Linear-attention state of one sequence, over all layers of the GPU, without padding."""
    block_tokens: int | None = None
    """Tokens of one attention block, after alignment to the state's page."""
    page_bytes: int | None = None
    """One block of one layer, padding included."""
    block_bytes: int | None = None
    """What one block id costs: its page in every layer of a group."""
    blocks: int | None = None
    """Block ids, the null block among them."""
    kv_cache_tokens: int | None = None
    """What vLLM logs as "KV cache size"."""
    max_concurrency: float | None = None
    """What vLLM logs as "Maximum concurrency for max_model_len tokens per request"."""
    longest_request: int | None = None
    """Tokens of the longest request that the pool holds, at most max_model_len."""
    blocks_per_request: Spread | None = None
    running_per_rank: Spread | None = None
    """Sequences that fit at once: `low` where all are at their shortest, `high` longest."""
    running: Spread | None = None
    """The same on all ranks of the role."""
    moved_bytes: Spread | None = None
    """Bytes that cross from prefill to decode per request, over all GPUs of a rank."""
    unknown: tuple[str, ...] = ()
    """What would have to be known for the fields that are None."""
    notes: tuple[str, ...] = ()
    """Assumptions behind the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A deployment's capacity by one release's own arithmetic."""

    engine: str
    release: str
    roles: tuple[RoleCapacity, ...]


def capacity_document(capacity: Capacity | None) -> dict[str, Any] | None:
    """The capacity as plain data: key `capacity` of the dry run's document."""
    return None if capacity is None else asdict(capacity)
