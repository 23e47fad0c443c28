"""What the arithmetic says about a configuration: what vLLM would refuse, what will not fit.

GPU memory and the reserve for activations are estimates, so a shortage is an error only where it
would be there with no reserve at all; where the reserve decides, it is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launcher.capacity import GIB, MIB
from launcher.engines.vllm_memory.layout import CacheLayout
from launcher.engines.vllm_memory.load import blocks_per_request, running_per_rank
from launcher.engines.vllm_memory.pool import (
    NULL_BLOCKS,
    Pool,
    longest_that_fits,
    memory_left,
    start_need,
)
from launcher.engines.vllm_memory.report import RoleMemory, role_memories
from launcher.engines.vllm_memory.settings import Settings
from launcher.errors import LauncherError
from launcher.plan import LaunchPlan, Point, build_plan
from launcher.schema import LaunchConfig

LONG_ENV = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One role whose pool is known."""

    role: str
    settings: Settings
    layout: CacheLayout
    pool: Pool
    weights: int
    max_model_len: int
    seqs_given: bool
    """Whether max-num-seqs is a flag of the configuration, which launcher/sizes.py judges."""


def memory_problems(config: LaunchConfig, env: Mapping[str, str]) -> Iterator[str]:
    """What vLLM would refuse at start-up, or answer with an error to every long request."""
    for memory in _memories(config, env):
        yield from _division(memory, config)
        yield from _lengths(memory, config, env)
        sized = _sized(memory)
        if sized is not None:
            yield from _start(sized, config, certain=True)


def memory_advice(config: LaunchConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Sweep points that ask for more than fits; starts that the memory reserve decides."""
    memories = _memories(config, env)
    for memory in memories:
        sized = _sized(memory)
        if sized is None:
            continue
        short = list(_start(sized, config, certain=False))
        yield from short
        if not short and memory.endpoint.role != "prefill":
            yield from _points(sized, build_plan(config))
    yield from _unequal_blocks(memories)


def _memories(config: LaunchConfig, env: Mapping[str, str]) -> list[RoleMemory]:
    try:
        return role_memories(build_plan(config), env)
    except LauncherError:
        return []  # said by the rule that builds the plan


def _sized(memory: RoleMemory) -> Sized | None:
    if memory.settings is None or memory.layout is None or memory.pool is None:
        return None
    if memory.max_model_len is None:
        return None
    return Sized(
        role=memory.endpoint.role,
        settings=memory.settings,
        layout=memory.layout,
        pool=memory.pool,
        weights=memory.weights or 0,
        max_model_len=memory.max_model_len,
        seqs_given=any(n.replace("_", "-") == "max-num-seqs" for n in memory.endpoint.flags),
    )


def _division(memory: RoleMemory, config: LaunchConfig) -> Iterator[str]:
    """Heads are divided over TP, and must divide (vLLM config/model.py, mamba_utils.py)."""
    facts, tp = config.model.facts, memory.endpoint.tp
    names = ("attention_heads", "gdn_value_heads", "gdn_key_heads")
    for name in names:
        heads = getattr(facts, name)
        if heads and heads % tp:
            yield (
                f"topology.roles.{memory.endpoint.role}.tp={tp}: the model's {heads} {name} do "
                f"not divide by it; allowed: a divisor of {heads}"
            )


def _lengths(memory: RoleMemory, config: LaunchConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Requests against the context, the context against the model."""
    settings, position = memory.settings, config.model.facts.max_position
    role = memory.endpoint.role
    if settings is None:
        return
    given = settings.max_model_len
    longer = given is not None and position is not None and given > position
    if longer and env.get(LONG_ENV, "0") in ("", "0"):
        yield (
            f"max-model-len={given} ({role}): the model has {position} positions "
            f"(model.facts.max_position), and vLLM refuses more; allowed: up to {position}"
        )
    limit = memory.max_model_len
    for point in build_plan(config).points[:1]:
        prompt = point.input_range[1]
        answer = point.output_range[1] if role != "prefill" else 1
        if limit is not None and prompt + answer > limit:
            load = config.workload
            parts = f"{prompt} prompt + {answer} answer tokens"
            yield (
                f"workload.isl={load.isl}, osl={load.osl}, range_ratio={load.range_ratio:g} "
                f"({load.range_definition}): the longest request has {parts} = "
                f"{prompt + answer}, more than {role}'s max-model-len {limit}; vLLM answers such "
                f"requests with an error; shorten the workload, or raise max-model-len"
            )


def _start(sized: Sized, config: LaunchConfig, *, certain: bool) -> Iterator[str]:
    """Too little memory to start: `certain` with no reserve at all, else by the reserve."""
    measured = sized.pool.source == "gpu-memory-utilization"
    have = _have(sized, config, reserve=measured and not certain)
    if not certain:
        if measured and not list(_start(sized, config, certain=True)):
            yield from _shortages(sized, sized.pool.size_bytes, have)
        return
    size = sized.pool.size_bytes
    if measured:
        size = memory_left(sized.settings, config, sized.weights, reserve=False)
    yield from _shortages(sized, size, have)


def _shortages(sized: Sized, size: int, have: str) -> Iterator[str]:
    """What vLLM refuses to start with when the pool has `size` bytes."""
    settings, layout = sized.settings, sized.layout
    blocks = max(0, size) // layout.block_bytes
    each = f"{layout.block_bytes / MIB:.2f} MiB"
    if size <= 0:
        yield (
            f"{sized.role}: the weights of one GPU are {sized.weights / GIB:.1f} GiB and leave no "
            f"memory for KV blocks ({have}); use more ranks (topology.roles.{sized.role}), or "
            "correct cluster.gpu_memory_gib"
        )
        return
    need = start_need(layout, sized.max_model_len, settings.release)
    if need > blocks:
        pool = Pool(size_bytes=size, source=sized.pool.source, blocks=blocks)
        fits = longest_that_fits(layout, pool, sized.max_model_len, settings.release)
        yield (
            f"{sized.role}: max-model-len={sized.max_model_len} needs {need} block ids of {each} "
            f"and there are {blocks} ({have}), so vLLM would not start; allowed: max-model-len up "
            f"to {fits}, or more memory for the pool"
        )
    seqs = settings.max_num_seqs
    if layout.gdn_layers and settings.full_graphs and seqs is not None and seqs > blocks:
        yield (
            f"{sized.role}: max-num-seqs={seqs} is more than the {blocks} block ids of {each} "
            f"({have}); with full CUDA graphs vLLM would not start a hybrid model; set "
            f"flags.roles.{sized.role}.max-num-seqs to {blocks} or less, or a smaller "
            "mamba-ssm-cache-dtype or kv-cache-dtype"
        )


def _have(sized: Sized, config: LaunchConfig, *, reserve: bool) -> str:
    """Where the memory of the pool comes from, with its numbers."""
    if sized.pool.source != "gpu-memory-utilization":
        return f"{sized.pool.source}: {sized.pool.size_bytes} bytes"
    kept = f" - {config.engine.memory_reserve_gib:g} reserve" if reserve else ""
    return (
        f"cluster.gpu_memory_gib={config.cluster.gpu_memory_gib:g} x "
        f"{sized.settings.utilization:g} - {sized.weights / GIB:.1f} weights{kept} GiB"
    )


def _points(sized: Sized, plan: LaunchPlan) -> Iterator[str]:
    """Concurrencies of the sweep against what runs at once, by the average request."""
    ranks = plan.role_ranks(sized.role)
    for point in plan.points:
        yield from _point(sized, point, ranks)


def _point(sized: Sized, point: Point, ranks: int) -> Iterator[str]:
    ids = blocks_per_request(sized.layout, sized.role, point)
    by_blocks = running_per_rank(sized.pool, ids, None)
    seqs = sized.settings.max_num_seqs
    fits = int(by_blocks.mean if seqs is None else min(by_blocks.mean, seqs))
    asked = -(-point.concurrency // ranks)
    if asked <= fits:
        return
    if seqs is not None and seqs < int(by_blocks.mean):
        if sized.seqs_given:
            return
        why = f"max-num-seqs={seqs}, the default"
    else:
        why = f"{sized.pool.blocks - NULL_BLOCKS} block ids / {ids.mean:.2f} per request"
    yield (
        f"workload.concurrency={point.concurrency} asks {asked} requests of each {sized.role} "
        f"rank, and {fits} run at once ({why}; {fits * ranks} on {ranks} ranks): the others wait "
        "or are preempted; see the capacity table of dry_run=true"
    )


def _unequal_blocks(memories: list[RoleMemory]) -> Iterator[str]:
    """Roles whose blocks come out unequal though KV crosses between them (vllm#42895)."""
    blocks = {
        memory.endpoint.role: memory.layout.block_tokens
        for memory in memories
        if memory.layout is not None and memory.endpoint.role in ("prefill", "decode")
    }
    if len(set(blocks.values())) > 1:
        parts = ", ".join(f"{role} {tokens}" for role, tokens in blocks.items())
        yield (
            f"attention blocks come out unequal after alignment ({parts} tokens): KV transfer "
            "between such roles failed at GB200 users (vllm#42895); give both roles the same tp, "
            "cache dtypes and block-size"
        )
