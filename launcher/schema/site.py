"""What a step runs in and what a node must have and keep, of the group `cluster`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ContainerConfig:
    """How a step enters its container."""

    kind: str = "none"
    """none | pyxis | apptainer. `none` runs the engine's own environment, `engine.env_dir`."""
    image: str | None = None
    """Image as the container runtime names it: registry reference, .sqsh or .sif path."""
    mounts: list[str] = field(default_factory=list)
    """Extra mounts, `host:container[:flags]`; model, results and code folders are added."""
    options: list[str] = field(default_factory=list)
    """Extra options, passed as they are (pyxis: srun options; apptainer: before the image)."""


@dataclass
class PortsConfig:
    """First port of each block; launcher/ports.py derives every listener from these."""

    router: int = 8000
    router_metrics: int = 29000
    http: int = 8100
    """Workers' HTTP: http + index of the process's first GPU on its node."""
    rpc: int = 13345
    """Data-parallel RPC: rpc + index of the endpoint's first GPU on its leader's node."""
    nixl: int = 5600
    """NIXL side channels: nixl + ranks of earlier endpoints + global DP rank (vLLM adds it)."""
    internal: int = 20000
    """VLLM_PORT windows of 50 for endpoints on one node: internal + 50 * first GPU."""


@dataclass
class PreflightConfig:
    """What a node must have, looked at on every node before a worker starts (docs/preflight.md)."""

    max_clock_skew_s: float = 2.0
    """How far a node's clock may be off the driver's, in seconds."""
    max_gpu_used_gb: float = 1.0
    """Memory of a GPU that may be in use while none of ours runs, GB."""
    min_free_memory_gb: float = 4.0
    """Host memory that must be available, GB."""


@dataclass
class StageConfig:
    """The model copied to each node's own disk before workers start (docs/stage-the-model.md)."""

    dir: str | None = None
    """Node-local folder for staged models: <dir>/launcher-<uid>-models, 0700. null: not staged, the
    workers read model.path."""
    verify: str = "sizes"
    """sizes | content. sizes: every file's size, the safetensors' own headers, and the content of
    files up to 64 MB. content: every file's SHA-256, read back from the disk."""
    files_at_once: int = 8
    """Files of one node that are copied at the same time."""
    keep: int = 2
    """Staged models of yours that stay on a node, this one included; before another is copied,
    those unused for longest are removed, but none that a living run uses."""
