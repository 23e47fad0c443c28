"""A plan's capacity, role by role; what is not known is named and the rest still computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from launcher.capacity import GIB, Capacity, RoleCapacity, Spread
from launcher.engines.vllm_memory.layout import CacheLayout, layout_of
from launcher.engines.vllm_memory.load import blocks_per_request, moved_bytes, running_per_rank
from launcher.engines.vllm_memory.pool import Pool, longest_that_fits, max_concurrency, pool_of
from launcher.engines.vllm_memory.settings import Settings, settings_of
from launcher.engines.vllm_memory.unknown import UnknownError, known
from launcher.engines.vllm_memory.weights import weights_bytes
from launcher.plan import Endpoint, LaunchPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMemory:
    """One role's arithmetic with its parts; None where `unknown` says what is missing."""

    endpoint: Endpoint
    settings: Settings | None = None
    layout: CacheLayout | None = None
    weights: int | None = None
    pool: Pool | None = None
    max_model_len: int | None = None
    unknown: tuple[str, ...] = ()


def capacity_of(plan: LaunchPlan, env: Mapping[str, str]) -> Capacity:
    """The capacity of every role; `env` is the environment that the workers get."""
    roles = tuple(_summary(plan, memory) for memory in role_memories(plan, env))
    return Capacity(engine="vllm", release=plan.config.engine.release, roles=roles)


def role_memories(plan: LaunchPlan, env: Mapping[str, str]) -> list[RoleMemory]:
    """One entry per role: endpoints of a role are alike."""
    first: dict[str, Endpoint] = {}
    for endpoint in plan.endpoints:
        first.setdefault(endpoint.role, endpoint)
    return [_memory(endpoint, plan, env) for endpoint in first.values()]


def _memory(endpoint: Endpoint, plan: LaunchPlan, env: Mapping[str, str]) -> RoleMemory:
    config, facts = plan.config, plan.config.model.facts
    memory = RoleMemory(endpoint=endpoint)
    try:
        settings = settings_of(endpoint, config, env)
    except UnknownError as error:
        return replace(memory, unknown=(str(error),))
    memory = replace(memory, settings=settings)
    unknown: list[str] = []
    if settings.device == "cuda":
        try:
            memory = replace(memory, weights=weights_bytes(endpoint, settings, facts))
        except UnknownError as error:
            unknown.append(str(error))
    try:
        layout = layout_of(endpoint, settings, facts)
        memory = replace(memory, layout=layout)
        pool = pool_of(settings, layout, config, memory.weights)
        memory = replace(memory, pool=pool)
        length = settings.max_model_len
        if length is None or length == -1:
            length = known(facts.max_position, "model.facts.max_position")
        if settings.max_model_len == -1:
            length = longest_that_fits(layout, pool, length, settings.release)
        memory = replace(memory, max_model_len=length)
    except UnknownError as error:
        unknown.append(str(error))
    return replace(memory, unknown=tuple(unknown))


def _summary(plan: LaunchPlan, memory: RoleMemory) -> RoleCapacity:
    config, endpoint = plan.config, memory.endpoint
    ranks = plan.role_ranks(endpoint.role)
    found = RoleCapacity(role=endpoint.role, ranks=ranks, unknown=memory.unknown)
    if memory.settings is None:
        return found
    found = replace(
        found,
        max_num_seqs=memory.settings.max_num_seqs,
        max_model_len=memory.max_model_len,
        weights_bytes=memory.weights,
        pool_from=memory.settings.pool_from,
    )
    if memory.settings.device == "cuda" and config.cluster.gpu_memory_gib is not None:
        found = replace(
            found,
            memory_bytes=round(config.cluster.gpu_memory_gib * GIB),
            utilization=memory.settings.utilization,
            reserve_bytes=round(config.engine.memory_reserve_gib * GIB),
        )
    if memory.layout is not None:
        found = _with_layout(found, plan, memory.layout, endpoint)
    if memory.pool is None or memory.layout is None:
        return found
    return _with_pool(found, memory.layout, memory.pool, config.engine.release)


def _with_layout(
    found: RoleCapacity, plan: LaunchPlan, layout: CacheLayout, endpoint: Endpoint
) -> RoleCapacity:
    point = plan.points[0] if plan.points else None
    return replace(
        found,
        kv_dtype=layout.kv_dtype,
        state_dtypes=layout.state_dtypes,
        kv_bytes_per_token=layout.token_bytes * layout.attention_layers,
        state_bytes=layout.state_bytes * layout.gdn_layers if layout.gdn_layers else None,
        block_tokens=layout.block_tokens,
        page_bytes=layout.page_bytes,
        block_bytes=layout.block_bytes,
        blocks_per_request=blocks_per_request(layout, endpoint.role, point) if point else None,
        moved_bytes=(
            moved_bytes(layout, endpoint, point) if point and plan.disaggregated else None
        ),
    )


def _with_pool(found: RoleCapacity, layout: CacheLayout, pool: Pool, release: str) -> RoleCapacity:
    found = replace(found, pool_bytes=pool.size_bytes, pool_from=pool.source, blocks=pool.blocks)
    if found.max_model_len:
        times = max_concurrency(layout, pool, found.max_model_len)
        found = replace(
            found,
            max_concurrency=times,
            kv_cache_tokens=int(times * found.max_model_len),
            longest_request=longest_that_fits(layout, pool, found.max_model_len, release),
        )
    if found.blocks_per_request is None:
        return found
    each = running_per_rank(pool, found.blocks_per_request, found.max_num_seqs)
    return replace(
        found,
        running_per_rank=each,
        running=Spread(
            low=each.low * found.ranks, mean=each.mean * found.ranks, high=each.high * found.ranks
        ),
    )
