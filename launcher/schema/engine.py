"""The groups `engine`, `flags` and `router`: which programs serve, and how they are told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class FlagsConfig:
    """A named set of engine flags; null removes a flag, a mapping becomes JSON."""

    all: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    """Names of flags and VLLM_* variables passed without a check against the release's table: those
    of a custom build or of a plug-in."""
    capture_rule: bool = False
    """Whether decode's max-cudagraph-capture-size follows the highest concurrency (cc/ranks + 128)
    where the release's own limit is lower."""


@dataclass
class EngineConfig:
    """Which server program, which release, where it lives."""

    name: str = MISSING
    kind: str = MISSING
    """vllm | rehearsal: the file under launcher/engines/."""
    release: str = MISSING
    """Release of the engine in the image or environment, as X.Y.Z."""
    env_dir: str | None = None
    """Environment that holds the engine when no container is used (its bin/ is used)."""
    device: str = "cuda"
    """cuda | cpu | none."""
    memory_reserve_gib: float = 8.0
    """GiB of each GPU that capacity keeps for activations and CUDA graphs. vLLM measures this at
    start-up; 6 to 10 is the range expected for the published model, and no measurement of ours."""
    client: str = MISSING
    """Benchmark client used unless workload.client says otherwise."""
    flags: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the rehearsal engine's own server."""


@dataclass
class RouterConfig:
    """The router in front of the workers (vllm-router)."""

    executable: str | None = None
    """Path of vllm-router on the nodes; null: beside cluster.python, outside any container."""
    policy: str = "round_robin"
    flags: dict[str, Any] = field(default_factory=dict)
