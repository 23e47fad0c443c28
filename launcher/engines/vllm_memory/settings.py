"""The flags of one endpoint that decide its memory, typed; vLLM's own defaults filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.engines.vllm_flags import canonical
from launcher.engines.vllm_memory.releases import (
    default_block_tokens,
    default_max_num_seqs,
    default_utilization,
    hybrid_prefix_caching,
)
from launcher.engines.vllm_memory.unknown import UnknownError
from launcher.options.table import vllm_table
from launcher.plan import Endpoint
from launcher.schema import LaunchConfig

NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])?")
EXPONENT = {"k": 1, "m": 2, "g": 3, "t": 4}
CPU_POOL_ENV = "VLLM_CPU_KVCACHE_SPACE"
NO_FULL_GRAPHS = ("NONE", "PIECEWISE", "0", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One endpoint's memory flags. None: not given, and the default depends on the model."""

    device: str
    release: str
    hybrid: bool
    dtype: str | None
    kv_dtype: str
    conv_dtype: str
    ssm_dtype: str
    block_tokens: int
    prefix_caching: bool
    gdn_backend: str | None
    max_model_len: int | None
    max_num_seqs: int | None
    utilization: float
    pool_bytes: int | None
    pool_from: str
    blocks: int | None
    draft_method: str | None
    draft_tokens: int
    redundant_experts: int
    full_graphs: bool
    context_parallel: int


def whole(value: Any) -> int:
    """A count as vLLM's command line reads it: 8192, "32k" (decimal) or "32K" (binary).

    engine/arg_utils.py human_readable_int. Raises UnknownError for other text.
    """
    if isinstance(value, bool) or value is None:
        raise UnknownError(f"{value!r} is no number")
    match = NUMBER.fullmatch(str(value))
    if match is None:
        raise UnknownError(f"{value!r} is no number")
    digits, suffix = match.groups()
    if suffix is None:
        return int(float(digits))
    base = 1000 if suffix.islower() else 1024
    return int(float(digits) * base ** EXPONENT[suffix.lower()])


def settings_of(endpoint: Endpoint, config: LaunchConfig, env: Mapping[str, str]) -> Settings:
    """The memory settings of an endpoint under `env`. UnknownError for values it cannot read."""
    flags = canonical(vllm_table(config.engine.release), endpoint.flags)
    device, release = config.engine.device, config.engine.release
    hybrid = config.model.hybrid or bool(config.model.facts.gdn_layers)
    draft = _mapping(flags.get("speculative-config"))
    pool_bytes, pool_from = _pool(flags, device, env)
    block_tokens = flags.get("block-size")
    caching = flags.get("enable-prefix-caching")
    return Settings(
        device=device,
        release=release,
        hybrid=hybrid,
        dtype=_word(flags, "dtype"),
        kv_dtype=_word(flags, "kv-cache-dtype") or "auto",
        conv_dtype=_word(flags, "mamba-cache-dtype") or "auto",
        ssm_dtype=_word(flags, "mamba-ssm-cache-dtype") or "auto",
        block_tokens=whole(block_tokens) if block_tokens else default_block_tokens(device),
        prefix_caching=(
            (hybrid_prefix_caching(release) if hybrid else True)
            if caching is None
            else bool(caching)
        ),
        gdn_backend=_gdn_backend(flags),
        max_model_len=_length(flags),
        max_num_seqs=_sequences(flags, endpoint, config),
        utilization=_fraction(flags, "gpu-memory-utilization") or default_utilization(release),
        pool_bytes=pool_bytes,
        pool_from=pool_from,
        blocks=_count(flags, "num-gpu-blocks-override"),
        draft_method=str(draft.get("method", "unnamed")) if draft else None,
        draft_tokens=(_count(draft, "num_speculative_tokens") or 0) if draft else 0,
        redundant_experts=_redundant(flags),
        full_graphs=_full_graphs(flags, device),
        context_parallel=max(
            _count(flags, "decode-context-parallel-size") or 1,
            _count(flags, "prefill-context-parallel-size") or 1,
        ),
    )


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return dict(value) if isinstance(value, Mapping) else {}


def _word(flags: Mapping[str, Any], name: str) -> str | None:
    value = flags.get(name)
    return None if value is None else str(value)


def _count(flags: Mapping[str, Any], name: str) -> int | None:
    value = flags.get(name)
    if value is None:
        return None
    try:
        return whole(value)
    except UnknownError as error:
        raise UnknownError(f"--{name}: {error}") from error


def _fraction(flags: Mapping[str, Any], name: str) -> float | None:
    value = flags.get(name)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise UnknownError(f"--{name}: {value!r} is not a number") from error


def _length(flags: Mapping[str, Any]) -> int | None:
    value = flags.get("max-model-len")
    if value in (None, -1, "-1", "auto"):
        return None if value is None else -1
    return _count(flags, "max-model-len")


def _sequences(flags: Mapping[str, Any], endpoint: Endpoint, config: LaunchConfig) -> int | None:
    given = _count(flags, "max-num-seqs")
    if given is not None:
        return given
    memory = config.cluster.gpu_memory_gib
    default = default_max_num_seqs(config.engine.device, memory, endpoint.gpus_per_rank)
    if default is not None and flags.get("performance-mode") == "throughput":
        default *= 2
    batched = _count(flags, "max-num-batched-tokens")
    return default if default is None or batched is None else min(default, batched)


def _pool(flags: Mapping[str, Any], device: str, env: Mapping[str, str]) -> tuple[int | None, str]:
    """Bytes of the pool where they are given outright, and by what."""
    if device == "cpu" and env.get(CPU_POOL_ENV, "").isdigit():
        return int(env[CPU_POOL_ENV]) * 2**30, CPU_POOL_ENV
    given = _count(flags, "kv-cache-memory-bytes")
    if given is not None:
        return given, "kv-cache-memory-bytes"
    return None, "gpu-memory-utilization"


def _gdn_backend(flags: Mapping[str, Any]) -> str | None:
    extra = _mapping(flags.get("additional-config"))
    value = flags.get("gdn-prefill-backend") or extra.get("gdn_prefill_backend")
    return None if value in (None, "auto") else str(value)


def _redundant(flags: Mapping[str, Any]) -> int:
    if not flags.get("enable-eplb"):
        return 0
    return _count(_mapping(flags.get("eplb-config")), "num_redundant_experts") or 0


def _full_graphs(flags: Mapping[str, Any], device: str) -> bool:
    """Whether decode batches are captured as whole graphs, as they are by default on GPUs."""
    if device == "cpu" or flags.get("enforce-eager"):
        return False
    if str(flags.get("optimization-level", "")) in ("0", "1"):
        return False
    mode = _mapping(flags.get("compilation-config")).get("cudagraph_mode")
    return mode is None or str(mode).upper() not in NO_FULL_GRAPHS
