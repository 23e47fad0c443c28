"""All that vLLM's tables say of a configuration: problems, and advice."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.engines.base import DERIVED
from launcher.engines.vllm_bounds import bound_problems
from launcher.engines.vllm_defaults import changed_defaults
from launcher.engines.vllm_env import env_advice, env_problems
from launcher.engines.vllm_flags import deprecated, flag_problems, owned_alias
from launcher.engines.vllm_transfer import transfer_advice, transfer_problems
from launcher.options.layers import all_layers, entries, spelling
from launcher.options.table import Table, vllm_table
from launcher.schema import LaunchConfig


def table_problems(config: LaunchConfig, owned: frozenset[str]) -> Iterator[str]:
    """What cannot be right; without a table of the very release, only what no release takes."""
    table = vllm_table(config.engine.release)
    yield from hidden(config, table, owned)
    yield from spelling(config)
    if table.exact:
        yield from dict.fromkeys(_by_table(config, table, owned))


def table_advice(config: LaunchConfig, owned: frozenset[str]) -> Iterator[str]:
    """What runs, but hardly as meant, and all findings of a table that is not the release's own."""
    table = vllm_table(config.engine.release)
    if not table.exact:
        yield (
            f"engine.release={config.engine.release}: no table of flags for this release (there "
            f"is one for {', '.join(table.releases)}); checked against {table.release}, and what "
            "that finds is told as warnings"
        )
        yield from dict.fromkeys(_by_table(config, table, owned))
    yield from dict.fromkeys(env_advice(config, table))
    yield from dict.fromkeys(transfer_advice(config, table))
    yield from dict.fromkeys(deprecated(config, table))
    yield from changed_defaults(config, table)


def _by_table(config: LaunchConfig, table: Table, owned: frozenset[str]) -> Iterator[str]:
    yield from flag_problems(config, table, owned)
    yield from bound_problems(config, table)
    yield from transfer_problems(config, table)
    yield from env_problems(config, table)


def hidden(config: LaunchConfig, table: Table, owned: frozenset[str]) -> Iterator[str]:
    """The launcher's own flags behind another spelling: dp, PORT, -tp, no-headless."""
    for layer, flags in all_layers(config).items():
        for entry in entries(layer, flags):
            meant = owned_alias(table, entry.name, owned)
            if meant and entry.name not in owned:
                yield f"{entry.where}={entry.value!r} means --{meant}: {DERIVED}"
