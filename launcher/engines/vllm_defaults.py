"""Defaults that a configuration leans on and that differ between releases, as the table has them.

Two that no parser tells are in launcher/known_bad/: prefix caching of hybrid models, and the
largest captured batch; so is the batch size, with its measured effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.engines.vllm_flags import resolved
from launcher.options.layers import merged
from launcher.options.table import Table
from launcher.schema import LaunchConfig

MEASURED = {
    "max-num-seqs": "requests that run together on one rank",
    "gpu-memory-utilization": "room for KV and states, so how many requests fit",
    "enable-prefix-caching": "whether a repeated prompt is computed again",
    "kv-cache-dtype": "bytes of KV: how many requests fit and how much crosses",
    "block-size": "KV block: padding, descriptors of a transfer",
    "mamba-ssm-cache-dtype": "bytes of state: how many requests fit and how much crosses",
    "mamba-cache-dtype": "bytes of state: how many requests fit and how much crosses",
    "async-scheduling": "overlap of scheduling with the GPU",
    "stream-interval": "tokens of one chunk: ITL",
    "all2all-backend": "kernel that moves tokens between experts",
    "moe-backend": "kernel of the experts",
    "attention-backend": "kernel of attention",
    "gdn-prefill-backend": "kernel of the linear-attention prefill",
    "enable-chunked-prefill": "whether long prompts are split between steps",
    "enforce-eager": "whether CUDA graphs are used",
    "optimization-level": "compilation and graphs",
    "performance-mode": "batch and graph sizes chosen for latency or throughput",
    "scheduling-policy": "order of waiting requests",
    "enable-dbo": "overlap of two half batches",
    "enable-eplb": "balancing of experts",
    "generation-config": "sampling defaults of the checkpoint",
    "dtype": "precision of the model",
    "quantization": "precision of the model",
}
"""Flags whose value changes what a run measures, with what each changes."""


def changed_defaults(config: LaunchConfig, table: Table) -> Iterator[str]:
    """One warning per flag that a role leaves to a default which differs between releases."""
    if config.engine.device != "cuda":
        return
    passed = {role: _passed(config, table, role) for role in config.topology.roles}
    for flag, why in MEASURED.items():
        values = _defaults(table, flag)
        without = [role for role, flags in passed.items() if flag not in flags]
        if len(values) > 1 and without:
            told = ", ".join(f"{_text(value)} in {span}" for span, value in values)
            yield _warning(table, flag, without, told, why)


def _defaults(table: Table, flag: str) -> list[tuple[str, Any]]:
    return table.defaults("resolved", flag) or table.defaults("flags", flag)


def _passed(config: LaunchConfig, table: Table, role: str) -> set[str]:
    """The options that a role's command line passes, by whatever name."""
    known = (resolved(table, name) for name in merged(config, role))
    return {flag.canonical for flag in known if flag is not None}


def _warning(table: Table, flag: str, roles: list[str], told: str, why: str) -> str:
    return (
        f"flags: {flag} is not set for {' and '.join(roles)}, and its default differs between "
        f"releases ({why}): {told}; this run is {table.program} {table.release}; set "
        f"flags.all.{flag} to measure the same on all"
    )


def _text(value: Any) -> str:
    if value is None:
        return "chosen by vLLM"
    return str(value).lower() if isinstance(value, bool) else str(value)
