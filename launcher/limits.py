"""What values can mean: numbers in bounds, words of a list, options that are not the user's."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from launcher.plan import ROLE_ORDER
from launcher.schema import BudgetsConfig, LaunchConfig, StallConfig

RELEASE = re.compile(r"\d+\.\d+\.\d+\S*")
MAX_STREAMS = 1_000_000
MAX_RANKS = 4096
OWNED_SBATCH = frozenset(
    {
        *("nodes", "ntasks", "ntasks-per-node", "time", "gpus-per-node", "gpus", "segment"),
        *("signal", "requeue", "no-requeue", "array", "output", "error", "job-name", "wrap"),
        *("chdir", "account", "partition", "qos", "reservation", "exclude"),
        "dependency",
    }
)
OWNED_ROUTER = frozenset(
    {
        *("host", "port", "prometheus-host", "prometheus-port", "prefill", "decode"),
        *("worker-urls", "policy", "api-key", "kv-connector", "vllm-pd-disaggregation"),
    }
)
ROUTER_POLICIES = ("round_robin", "random", "power_of_two", "consistent_hash", "cache_aware")
DAY_S = 86400.0
COUNTED_FACTS = (
    *("layers", "hidden_size", "attention_heads", "kv_heads", "head_dim", "max_position"),
    *("gdn_value_heads", "gdn_key_heads", "gdn_head_dim", "gdn_conv_kernel"),
    *("experts", "experts_per_token", "moe_intermediate_size"),
)
"""Numbers of a model that are 1 or more, or null where the model has no such part."""
FACTS_THAT_MAY_BE_NONE = ("attention_layers", "gdn_layers", "shared_experts", "mtp_layers")
NUMBERS: tuple[tuple[str, float, float], ...] = (
    *(
        (f"cluster.budgets.{key}", 1, 30 * DAY_S)
        for key, value in vars(BudgetsConfig()).items()
        if isinstance(value, float)
    ),
    *((f"cluster.budgets.stall.{key}", 1, 30 * DAY_S) for key in vars(StallConfig())),
    ("cluster.log_limit_mb", 1, 1e6),
    ("cluster.stage.files_at_once", 1, 256),
    ("cluster.stage.keep", 1, 1000),
    ("cluster.sample_s", 0, 60),
    ("cluster.cpus_per_node", 1, 4096),
    ("cluster.gpus_per_node", 1, 64),
    ("cluster.nodes", 1, 4096),
    ("cluster.gpu_memory_gib", 1, 4096),
    ("engine.memory_reserve_gib", 0, 4096),
    ("cluster.nvlink_domain_nodes", 1, 4096),
    ("model.expected.tokens_per_s_per_gpu", 1e-3, 1e9),
    ("model.expected.tpot_ms", 1e-6, 1e6),
    ("model.expected.start_s", 0, 30 * DAY_S),
    ("cluster.grace_s", 1, DAY_S),
    ("cluster.controller_s", 1, 30 * DAY_S),
    ("cluster.min_free_disk_gb", 0, 1e6),
    ("cluster.preflight.max_clock_skew_s", 0.1, DAY_S),
    ("cluster.preflight.max_gpu_used_gb", 0, 1e3),
    ("cluster.preflight.min_free_memory_gb", 0, 1e5),
    ("cluster.ports.internal", 1024, 65000),
    *((f"model.facts.{key}", 1, 1e8) for key in COUNTED_FACTS),
    *((f"model.facts.{key}", 0, 1e8) for key in FACTS_THAT_MAY_BE_NONE),
    *((f"model.facts.{key}_params", 0, 1e15) for key in ("expert", "other")),
    *((f"model.facts.{key}_bytes_per_param", 0.01, 16) for key in ("expert", "other")),
    ("workload.isl", 1, 1e8),
    ("workload.osl", 1, 1e8),
    ("workload.prompts_per_concurrency", 1e-6, 1e6),
    ("workload.warmup_per_concurrency", 0, 1e6),
    ("workload.warmup_rate", 1e-6, 1e6),
    ("workload.repeats", 1, 1000),
    ("workload.request_timeout_s", 1, 30 * DAY_S),
    ("workload.shared_prefix.tokens", 1, 1e8),
    ("workload.shared_prefix.groups", 1, 1e6),
    ("workload.multi_turn.turns", 1, 1e4),
    ("workload.multi_turn.wait_s", 0, DAY_S),
    ("workload.trace.speed", 1e-6, 1e6),
    ("workload.trace.block_tokens", 16, 1e6),
    ("workload.goodput.ttft_ms", 1e-3, 1e9),
    ("workload.goodput.tpot_ms", 1e-3, 1e9),
    ("workload.request_rate", 1e-6, 1e6),
    ("workload.burstiness", 1e-3, 1e6),
    ("workload.client_processes", 0, 64),
    ("workload.stall_timeout_s", 1, 30 * DAY_S),
    ("model.vocab_size", 64, 1e8),
    ("model.gsm8k_reference", 0, 1),
    ("canary.prompts", 1, 1000),
    ("canary.tokens", 1, 1000),
    ("canary.prompt_tokens", 8, 1e6),
    ("sweep.max_jobs", 1, 10000),
    ("accuracy.repeats", 1, 1000),
    ("accuracy.num_questions", 1, 1e6),
    ("accuracy.num_shots", 0, 100),
    ("accuracy.max_tokens", 1, 1e6),
    ("accuracy.temperature", 0, 10),
    ("accuracy.concurrency", 1, 1e6),
    ("accuracy.timeout_s", 1, 30 * DAY_S),
    ("accuracy.retries", 0, 100),
    ("accuracy.tolerance", 0, 1),
)
"""(key, lowest, highest): what a number can mean; nan and infinities never."""

READ: tuple[Callable[[LaunchConfig], Any], ...] = tuple(attrgetter(key) for key, _, _ in NUMBERS)


def choice(where: str, value: str, allowed: Mapping[str, Any] | tuple[str, ...]) -> Iterator[str]:
    """One problem unless `value` is one of `allowed`, with the nearest of them."""
    if value not in allowed:
        near = difflib.get_close_matches(value, list(allowed), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{where}={value!r}: allowed: {', '.join(allowed)}{hint}"


def owned_options(config: LaunchConfig) -> Iterator[str]:
    """Options of sbatch and vllm-router that the launcher works out itself."""
    for name, value in config.cluster.sbatch.items():
        if name.replace("_", "-") in OWNED_SBATCH:
            known = {"topology", "cluster.time", "cluster.segment", "cluster.grace_s"}
            own = f"cluster.{name}" if hasattr(config.cluster, name) else "cluster.results_dir"
            others = ", ".join(sorted(known - {own}))
            yield (
                f"cluster.sbatch.{name}={value!r}: the launcher sets this option; use {own}, or "
                f"what decides it: {others}"
            )
        if isinstance(value, (dict, list)):
            yield f"cluster.sbatch.{name}={value!r}: allowed: one text or number"
    for name, value in config.router.flags.items():
        if name.replace("_", "-") in OWNED_ROUTER:
            yield (
                f"router.flags.{name}={value!r}: the launcher sets this flag; use cluster.ports, "
                "router.policy and the topology"
            )
    yield from choice("router.policy", config.router.policy, ROUTER_POLICIES)
    for name in sorted(set(config.flags.roles) - set(ROLE_ORDER)):
        yield f"flags.roles.{name}: no such role; allowed: {', '.join(ROLE_ORDER)}"


def numbers(config: LaunchConfig) -> Iterator[str]:
    """Numbers that are finite and within what they can mean."""
    for (where, low, high), read in zip(NUMBERS, READ, strict=True):
        value = read(config)
        if value is None:
            continue
        if not math.isfinite(value) or not low <= value <= high:
            yield f"{where}={value}: allowed: {_shown(low)} to {_shown(high)}"
    yield from _counts(config)
    if not RELEASE.fullmatch(config.engine.release):
        yield f"engine.release={config.engine.release!r}: allowed: X.Y.Z, as in 0.33.0"


def _shown(bound: float) -> str:
    """1e8 as 100000000, 1e-6 as it is."""
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"


def _counts(config: LaunchConfig) -> Iterator[str]:
    for value in config.workload.concurrency:
        if value > MAX_STREAMS:
            yield f"workload.concurrency has {value}: allowed: 1 to {MAX_STREAMS}"
    for role, shape in config.topology.roles.items():
        for key in ("endpoints", "tp", "pp", "dp"):
            if getattr(shape, key) > MAX_RANKS:
                value = getattr(shape, key)
                yield f"topology.roles.{role}.{key}={value}: allowed: 1 to {MAX_RANKS}"
