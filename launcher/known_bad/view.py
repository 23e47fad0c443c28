"""A configuration as the table of known-bad combinations looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from launcher.engines.vllm import configured_env
from launcher.engines.vllm_flags import canonical
from launcher.flags import merge_flags
from launcher.options.layers import dashed, flag_layers
from launcher.options.table import Table, numbers, vllm_table
from launcher.placement import Placement, place
from launcher.plan import ROLE_ORDER, LaunchPlan, build_plan
from launcher.schema import LaunchConfig, ModelFacts, RoleConfig

ENV_LAYERS = ("flags", "model", "engine", "cluster")
"""Groups whose `env` counts, the last to be applied first."""


@dataclass(frozen=True, slots=True)
class RoleView:
    """One role with its merged flags."""

    name: str
    shape: RoleConfig
    flags: Mapping[str, Any]
    layers: tuple[tuple[str, Mapping[str, Any]], ...]
    """(key of the layer, its flags), the last to be applied first."""
    table: Table
    """What the release's flags are called."""

    def at(self, flag: str, value: Any = None) -> str:
        """`flags.all.x=value`: the flag as written in the layer that decides it, or at the role's.

        A key inside a mapping belongs to the last layer whose own mapping has it.
        """
        head, _, key = flag.partition(".")
        found = [
            (where, name, item)
            for where, flags in self.layers
            for name, item in flags.items()
            if head in canonical(self.table, {name: item})
        ]
        shown = self.flags.get(head) if value is None else value
        if not found:
            return f"flags.roles.{self.name}.{flag}={_shown(shown)}"
        having = [entry for entry in found if key and key in _keys(entry[2])]
        where, name, item = (having or found)[0]
        if dashed(name) != head and not key:
            shown = item
        return f"{where}.{name}{flag[len(head) :]}={_shown(shown)}"

    @property
    def transfer(self) -> Mapping[str, Any]:
        """kv-transfer-config, empty without one."""
        value = self.flags.get("kv-transfer-config")
        return value if isinstance(value, Mapping) else {}

    def nested(self, flag: str, key: str) -> Any:
        """A value inside a mapping flag, whatever dashes its key has; None without it."""
        value = self.flags.get(flag)
        if not isinstance(value, Mapping):
            return None
        named = {str(name).replace("-", "_"): item for name, item in value.items()}
        return named.get(key.replace("-", "_"))

    def number(self, flag: str) -> int | None:
        """A whole-number flag, None where it is not set or no number."""
        value = self.flags.get(flag)
        if isinstance(value, bool) or value is None:
            return None
        try:
            return int(float(value))
        except (TypeError, ValueError):
            return None


def _shown(value: Any) -> str:
    if value is True or value is False:
        return str(value).lower()
    return "null" if value is None else str(value)


class View:
    """Roles, environment, model and placement of one configuration; plans lazily."""

    def __init__(self, config: LaunchConfig) -> None:
        self.config = config
        self.release = numbers(config.engine.release)
        self.env: dict[str, str] = configured_env(config)
        self.roles = {
            name: _role(config, name, config.topology.roles[name])
            for name in ROLE_ORDER
            if name in config.topology.roles
        }

    def at_least(self, release: str) -> bool:
        """Whether the configured release is `release` or later."""
        return self.release >= numbers(release)

    def at_env(self, name: str, home: str = "model") -> str:
        """`model.env.NAME=value`: a variable at the layer that decides it, else at its home."""
        for group in ENV_LAYERS:
            env: Mapping[str, str] = getattr(self.config, group).env
            if name in env:
                return f"{group}.env.{name}={env[name]}"
        return f"{home}.env.{name}=null"

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model."""
        return self.config.model.facts

    @property
    def hybrid(self) -> bool:
        """Whether the model has linear-attention layers."""
        return self.config.model.hybrid

    @property
    def cuda(self) -> bool:
        """Whether the engine runs on GPUs."""
        return self.config.engine.device == "cuda"

    @property
    def slurm(self) -> bool:
        """Whether nodes are machines (and not loopback addresses of this one)."""
        return self.config.cluster.executor == "slurm"

    @property
    def disaggregated(self) -> bool:
        """Whether prefill and decode are apart."""
        return {"prefill", "decode"} <= set(self.roles)

    @property
    def pair(self) -> tuple[RoleView, RoleView] | None:
        """(prefill, decode) where they are apart."""
        return (self.roles["prefill"], self.roles["decode"]) if self.disaggregated else None

    @cached_property
    def plan(self) -> LaunchPlan:
        """Endpoints and points."""
        return build_plan(self.config)

    @cached_property
    def placement(self) -> Placement:
        """Processes on nodes."""
        return place(self.plan)

    def spread(self) -> Iterator[RoleView]:
        """Roles with an endpoint over several nodes."""
        names = {p.endpoint.role for p in self.placement.processes if p.endpoint_nodes > 1}
        yield from (role for name, role in self.roles.items() if name in names)

    def headless(self) -> Iterator[RoleView]:
        """Roles with processes that serve no HTTP."""
        names = {p.endpoint.role for p in self.placement.processes if not p.serves_http}
        yield from (role for name, role in self.roles.items() if name in names)

    @property
    def top_concurrency(self) -> int:
        """The highest point of the sweep."""
        return max(self.config.workload.concurrency, default=0)


def _keys(value: Any) -> Mapping[str, Any]:
    """The mapping that a layer wrote for a flag, as text too; empty for anything else."""
    written = merge_flags({"x": value}).get("x")
    return written if isinstance(written, Mapping) else {}


def _role(config: LaunchConfig, name: str, shape: RoleConfig) -> RoleView:
    layers = flag_layers(config, name)
    table = vllm_table(config.engine.release)
    merged = canonical(table, merge_flags(*(flags for _, flags in layers)))
    return RoleView(name, shape, merged, tuple(reversed(layers)), table)
