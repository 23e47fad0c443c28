"""Models and flags on which our capacity is held against the real vLLM's, and our side of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.capacity import RoleCapacity
from launcher.engines import ENGINES
from launcher.flags import render_flags
from launcher.model_files import fill_facts
from launcher.plan import build_plan
from launcher.schema import LaunchConfig, ModelFacts
from tests.compose import config_of

DENSE, HYBRID, TRAINED = "tiny-qwen3", "tiny-qwen3_5-moe", "smollm2-135m"
MIB = 2**20


@dataclass(frozen=True)
class Case:
    """One start of vLLM: a model folder, changes to its text model's config.json, flags."""

    name: str
    model: str
    flags: dict[str, Any]
    edits: dict[str, Any] = field(default_factory=dict)


def flags(pool_mib: int, length: int, **more: Any) -> dict[str, Any]:
    """Memory flags by their command-line names; underscores stand for dashes."""
    named = {"kv-cache-memory-bytes": pool_mib * MIB, "max-model-len": length}
    return named | {name.replace("_", "-"): value for name, value in more.items()}


BF16 = {"mamba_ssm_cache_dtype": "bfloat16", "enable_prefix_caching": False}
FP32 = {"mamba_ssm_cache_dtype": "float32", "enable_prefix_caching": False}
# Few heads and a wide state, so that alignment and padding are not what they are by default.
WIDE = {"linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}

CASES = (
    Case("dense", DENSE, flags(64, 4096)),
    Case("dense block 32", DENSE, flags(64, 4096, block_size=32)),
    Case("dense float32", DENSE, flags(48, 3000, dtype="float32", block_size=64)),
    Case("dense odd pool", DENSE, flags(37, 4097, block_size=96, enable_prefix_caching=False)),
    Case("dense override", DENSE, flags(64, 2048, num_gpu_blocks_override=300)),
    Case("trained, 30 layers", TRAINED, flags(256, 8192)),
    Case("trained, too long", TRAINED, flags(128, 8192)),
    Case("trained, as long as fits", TRAINED, flags(128, -1)),
    Case("hybrid bf16 states", HYBRID, flags(128, 4096, **BF16)),
    Case("hybrid fp32 states", HYBRID, flags(128, 4096, **FP32)),
    Case("hybrid auto states", HYBRID, flags(100, 5000, enable_prefix_caching=False)),
    Case("hybrid block 32", HYBRID, flags(128, 4096, block_size=32, **BF16)),
    Case("hybrid block 512", HYBRID, flags(128, 2048, block_size=512, **FP32)),
    Case("hybrid fp8 KV", HYBRID, flags(128, 4096, kv_cache_dtype="fp8", **BF16)),
    Case("hybrid fp8 KV fp32 states", HYBRID, flags(128, 2048, kv_cache_dtype="fp8", **FP32)),
    Case("hybrid float16 conv", HYBRID, flags(128, 4096, mamba_cache_dtype="float32", **BF16)),
    Case("hybrid prefix caching", HYBRID, flags(128, 4096, enable_prefix_caching=True)),
    Case("hybrid caching by default", HYBRID, flags(96, 4096)),
    Case("hybrid wide states", HYBRID, flags(256, 4096, **BF16), dict(WIDE)),
    Case("hybrid wide fp32 states", HYBRID, flags(256, 8192, block_size=64, **FP32), dict(WIDE)),
    Case("8 layers of 4", HYBRID, flags(128, 4096, **BF16), {"num_hidden_layers": 8}),
    Case("7 layers: padded group", HYBRID, flags(128, 4096, **BF16), {
        "num_hidden_layers": 7, "full_attention_interval": 3}),
    Case("7 layers: larger group", HYBRID, flags(128, 4096, **BF16), {
        "num_hidden_layers": 7, "full_attention_interval": 2}),
    Case("hybrid, too long", HYBRID, flags(1, 32768, **FP32)),
    Case("5 layers: factor 1.5", HYBRID, flags(128, 4096, **FP32), {
        "num_hidden_layers": 5, "full_attention_interval": 2}),
)  # fmt: skip
"""More than one of every thing the arithmetic depends on."""

SERVED = (
    "dense", "dense block 32", "dense float32", "trained, 30 layers", "hybrid bf16 states",
    "hybrid fp32 states", "hybrid block 32", "hybrid prefix caching",
)  # fmt: skip
"""Cases started as whole `vllm serve` processes too."""


def model_folder(case: Case, models: Path, scratch: Path) -> Path:
    """The case's model: the folder itself, or a copy by links with an edited config.json."""
    source = models / case.model
    if not case.edits:
        return source
    folder = scratch / case.name.replace(" ", "-").replace(":", "")
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != "config.json" and not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    config = json.loads((source / "config.json").read_text())
    config["text_config"] |= case.edits
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def all_flags(case: Case) -> dict[str, Any]:
    """The case's flags with what every CPU start needs."""
    base: dict[str, Any] = {"dtype": "bfloat16", "enforce-eager": True, "load-format": "dummy"}
    if case.model == HYBRID:
        base["language-model-only"] = True
    return base | case.flags


def engine_argv(case: Case, folder: Path) -> list[str]:
    """The engine's flags as the launcher renders them."""
    return ["--model", str(folder), *render_flags(all_flags(case), off_prefix="no-")]


def case_config(case: Case, folder: Path, release: str) -> LaunchConfig:
    """The launcher's configuration of the case; facts come from config.json alone."""
    config = config_of("cluster=local", "engine=vllm_cpu", "topology=dp1_prefill1x1")
    config.engine.release = release
    config.model.path, config.model.hybrid = str(folder), case.model == HYBRID
    config.model.facts = ModelFacts()
    config.flags.all, config.flags.roles = all_flags(case), {}
    fill_facts(config)
    return config


def ours(case: Case, folder: Path, release: str) -> RoleCapacity:
    """Our capacity of one rank."""
    plan = build_plan(case_config(case, folder, release))
    capacity = ENGINES["vllm"].capacity(plan)
    assert capacity is not None
    return next(role for role in capacity.roles if role.role == "decode")
