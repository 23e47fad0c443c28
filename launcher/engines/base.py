"""What an engine must answer; nothing else of the launcher knows an engine's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from launcher.capacity import Capacity
from launcher.placement import WorkerProcess
from launcher.plan import LaunchPlan
from launcher.schema import LaunchConfig
from launcher.steps import Surroundings

DERIVED = (
    "the launcher derives this flag from the topology (tp, pp, dp, expert_parallel, "
    "load_balancing), the model and cluster.ports; remove it and set those"
)
"""Why a flag of the launcher's own is refused, by whatever name."""


class Engine(Protocol):
    """One server program."""

    protocol: str
    """The dialect jobs/engines/ reads and speaks."""
    rehearsal: bool
    """Whether its records are stamped as no results."""
    owned_flags: frozenset[str]
    """Flags the launcher derives; refused in configuration."""

    owned_env: frozenset[str]
    """Variables that every process gets its own value of; refused in configuration."""

    def worker_argv(
        self, process: WorkerProcess, plan: LaunchPlan, around: Surroundings, /
    ) -> Sequence[str]:
        """The server's own command."""

    def worker_env(
        self, process: WorkerProcess, plan: LaunchPlan, around: Surroundings, /
    ) -> Mapping[str, str]:
        """The server's environment, secrets left out."""

    def transfers_kv(self, plan: LaunchPlan) -> bool:
        """Whether KV crosses between endpoints, so that side channels and a canary are due."""

    def problems(self, config: LaunchConfig, /) -> Iterator[str]:
        """What this engine would refuse, or silently get wrong, before anything is placed."""

    def advice(self, config: LaunchConfig, /) -> Iterator[str]:
        """What runs, but hardly as meant: warnings, which only check=strict makes a stop."""

    def capacity(self, plan: LaunchPlan, /) -> Capacity | None:
        """What fits in memory, worked out; None where the engine has no memory to speak of."""

    def contained(self) -> bool:
        """Whether the server runs inside the cluster's container."""
