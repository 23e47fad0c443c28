"""The typed shape of every configuration group under conf/, a file for each group or two.

Mutable on purpose: YAML is merged onto these by OmegaConf. Plan types (plan.py, placement.py)
are frozen. A key that is not here is an error, a value of another type is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra.core.config_store import ConfigStore

from launcher.schema.answers import AccuracyConfig, CanaryConfig
from launcher.schema.budgets import BudgetsConfig, StallConfig
from launcher.schema.cluster import ClusterConfig
from launcher.schema.engine import EngineConfig, FlagsConfig, RouterConfig
from launcher.schema.model import ExpectedConfig, ModelConfig, ModelFacts
from launcher.schema.site import ContainerConfig, PortsConfig, PreflightConfig, StageConfig
from launcher.schema.sweep import SweepConfig
from launcher.schema.topology import RoleConfig, TopologyConfig
from launcher.schema.workload import (
    GoodputConfig,
    MultiTurnConfig,
    SharedPrefixConfig,
    TraceConfig,
    WorkloadConfig,
)

__all__ = [
    "AccuracyConfig",
    "BudgetsConfig",
    "CanaryConfig",
    "ClusterConfig",
    "ContainerConfig",
    "EngineConfig",
    "ExpectedConfig",
    "FlagsConfig",
    "GoodputConfig",
    "LaunchConfig",
    "ModelConfig",
    "ModelFacts",
    "MultiTurnConfig",
    "PortsConfig",
    "PreflightConfig",
    "RoleConfig",
    "RouterConfig",
    "SharedPrefixConfig",
    "StageConfig",
    "StallConfig",
    "SweepConfig",
    "TopologyConfig",
    "TraceConfig",
    "WorkloadConfig",
    "register",
]


@dataclass
class LaunchConfig:
    """The whole of one run."""

    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    topology: TopologyConfig = field(default_factory=TopologyConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    flags: FlagsConfig = field(default_factory=FlagsConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    router: RouterConfig = field(default_factory=RouterConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    accuracy: AccuracyConfig = field(default_factory=AccuracyConfig)
    canary: CanaryConfig = field(default_factory=CanaryConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    name: str | None = None
    """Label of the run; null: the topology's name."""
    dry_run: str = "false"
    """false | true (for people) | json (one document on stdout)."""
    check: str = "warn"
    """warn | strict. Errors always stop; warnings are printed, or with strict stop as well."""
    on_bad_node: str = "stop"
    """stop | exclude. A node that fails the preflight stops the run; with exclude the job is
    submitted once more without it, into the same run directory."""
    wait: str = "auto"
    """auto | true | false: stay until the run has ended, follow its log, print the table.
    auto: yes on `local`, no on Slurm."""
    allow_dirty: bool = False
    """Whether a checkout with uncommitted changes may be submitted (their diff is kept)."""


def register() -> None:
    """Make LaunchConfig known to Hydra as `launch_schema`, the base of conf/config.yaml."""
    ConfigStore.instance().store(name="launch_schema", node=LaunchConfig)
