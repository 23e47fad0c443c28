"""How many block ids there are, and the two lines that vLLM logs about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launcher.capacity import GIB
from launcher.engines.vllm_memory.layout import CacheLayout
from launcher.engines.vllm_memory.releases import holds_back_null_block
from launcher.engines.vllm_memory.settings import Settings
from launcher.engines.vllm_memory.unknown import UnknownError, known
from launcher.schema import LaunchConfig

NULL_BLOCKS = 1
"""Block 0 is never given to a request (v1/core/block_pool.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The block pool of one rank."""

    size_bytes: int
    source: str
    blocks: int


def pool_of(
    settings: Settings, layout: CacheLayout, config: LaunchConfig, weights: int | None
) -> Pool:
    """The pool of one rank; UnknownError where neither a flag nor the GPU's memory decides it.

    num-gpu-blocks-override sets the number outright; kv-cache-memory-bytes the bytes; else
    gpu-memory-utilization x memory - weights - engine.memory_reserve_gib (v1/worker/gpu_worker.py
    measures the last by a trial run, so this one number is an estimate).
    """
    size, source = settings.pool_bytes, settings.pool_from
    if settings.blocks is not None:
        size, source = settings.blocks * layout.block_bytes, "num-gpu-blocks-override"
    if size is None:
        size = memory_left(settings, config, weights)
    return Pool(size_bytes=size, source=source, blocks=max(0, size) // layout.block_bytes)


def memory_left(
    settings: Settings, config: LaunchConfig, weights: int | None, reserve: bool = True
) -> int:
    """Bytes left for KV blocks on one GPU; `reserve` False: were nothing kept for activations."""
    if settings.device != "cuda":
        raise UnknownError(
            "how much memory the KV pool gets: on this device it is measured at start-up; "
            "pass kv-cache-memory-bytes"
        )
    memory = known(config.cluster.gpu_memory_gib, "cluster.gpu_memory_gib") * GIB
    kept = config.engine.memory_reserve_gib * GIB if reserve else 0
    requested = math.ceil(memory * settings.utilization)
    return requested - known(weights, "the bytes of the weights") - round(kept)


def start_need(layout: CacheLayout, max_model_len: int, release: str) -> int:
    """Block ids that must be there to start: one request of the full length.

    v1/core/kv_cache_utils.py get_kv_cache_configs; the null block counts since 0.29.0.
    """
    extra = NULL_BLOCKS if holds_back_null_block(release) else 0
    return layout.ids(max_model_len) + extra


def longest_that_fits(layout: CacheLayout, pool: Pool, limit: int, release: str) -> int:
    """Tokens of the longest request that the pool holds, at most `limit`; what max-model-len=-1
    makes of it, and what vLLM suggests when it refuses. 0 where not even one token fits."""
    extra = NULL_BLOCKS if holds_back_null_block(release) else 0
    left = pool.blocks - extra - layout.state_ids
    return max(0, min(limit, left // layout.attention_groups * layout.block_tokens))


def max_concurrency(layout: CacheLayout, pool: Pool, max_model_len: int) -> float:
    """vLLM's "Maximum concurrency for N tokens per request": ids there are / ids of one request.

    v1/core/kv_cache_utils.py get_max_concurrency_for_kv_cache_config; the null block is in.
    """
    return pool.blocks / layout.ids(max_model_len)
