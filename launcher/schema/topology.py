"""The group `topology`: roles, and how large each is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class RoleConfig:
    """The shape of one role: `endpoints` copies of a tp x pp x dp engine."""

    endpoints: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    """Data-parallel ranks of one endpoint; with expert_parallel EP = tp * dp."""
    expert_parallel: bool = True
    load_balancing: str = "hybrid"
    """hybrid | internal, for endpoints over several nodes. hybrid: every node answers HTTP for its
    own ranks; internal: the first node answers for all, the others are headless."""
    flags: dict[str, Any] = field(default_factory=dict)
    """Engine flags of this topology's role; last of all layers."""


@dataclass
class TopologyConfig:
    """Roles and how they share nodes."""

    roles: dict[str, RoleConfig] = field(default_factory=dict)
    """prefill + decode, or aggregated alone."""
    share_nodes: bool = False
    """Whether ranks of different roles may share a node."""
