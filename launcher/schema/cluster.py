"""The group `cluster`: one site."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from launcher.schema.budgets import BudgetsConfig
from launcher.schema.site import ContainerConfig, PortsConfig, PreflightConfig, StageConfig


@dataclass
class ClusterConfig:
    """One site: where jobs run and what a node is."""

    executor: str = MISSING
    """slurm | local. local runs the same pipeline with process groups instead of srun steps."""
    gpus_per_node: int = 4
    """GPUs of one node (GB200 NVL72 compute tray: 4). On `local`, slots."""
    gpu_memory_gib: float | None = None
    """Memory of one GPU as the driver reports it, GiB; null: not known, so no pool is computed.
    conf/cluster/slurm_gb200.yaml has 184, derived and unconfirmed: see the comment there."""
    cpus_per_node: int | None = None
    """CPUs a step asks for are its share of these by GPUs; null leaves it to Slurm."""
    nodes: int | None = None
    """Nodes the job is expected to take, checked both ways; null: as many as the topology needs."""
    nvlink_domain_nodes: int = 18
    """Nodes of one NVLink domain (NVL72: 18 trays of 4 GPUs)."""
    segment: str = "auto"
    """auto | off | a node count. sbatch --segment: nodes that must share one block."""
    segment_fallback: str = "none"
    """none | divisor. divisor: where Slurm cannot hold the segment, the next smaller one that
    divides the node count and cuts no endpoint is asked for; the record says which was used."""
    results_dir: str = "runs"
    """Run directories are made here; must be on a file system that login node and nodes share."""
    python: str | None = None
    """Python of the driver on the nodes; null: the interpreter that runs the launcher."""
    time: str = "04:00:00"
    """Job time limit as Slurm writes it ([D-]HH:MM:SS, D-HH, D-HH:MM, MM:SS), in quotes."""
    grace_s: int = 120
    """Seconds before the time limit at which the driver is told to end and write its records."""
    requeue: bool = True
    """Whether Slurm may put the job back (preemption, lost node): it goes on where it stopped."""
    controller_s: float = 600.0
    """Seconds Slurm's controller may be out of reach: at submission, and while a run is followed
    before it counts as lost."""
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    exclude: str | None = None
    dependency: str | None = None
    """What sbatch --dependency takes: afterok:123, afterany:123:124, singleton."""
    sbatch: dict[str, Any] = field(default_factory=dict)
    """Further sbatch options, long names without dashes (mem: 0)."""
    srun: list[str] = field(default_factory=list)
    """Further srun options of every step."""
    setup: list[str] = field(default_factory=list)
    """Shell lines of the batch script before the driver (module load ...)."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of every step."""
    container: ContainerConfig = field(default_factory=ContainerConfig)
    ports: PortsConfig = field(default_factory=PortsConfig)
    budgets: BudgetsConfig = field(default_factory=BudgetsConfig)
    preflight: PreflightConfig = field(default_factory=PreflightConfig)
    login_sees_models: bool = True
    """Whether models can be checked where the launcher runs; else the preflight does."""
    cache_dir: str = "/tmp"
    """Node-local folder for compile caches: <cache_dir>/launcher-<uid>/<run>/<worker>, 0700."""
    keep_caches: bool = False
    """Whether compile and JIT caches outlive the run, one folder for each (image, model, flags):
    <cache_dir>/launcher-<uid>-caches/<hash>/<worker>; removed when unused for 30 days."""
    stage: StageConfig = field(default_factory=StageConfig)
    log_limit_mb: float = 300.0
    """Size of one process's logs, MB; of a longer one the beginning and the end are kept."""
    sample_s: float = 1.0
    """Seconds between two looks at every engine's and the router's metrics while the run measures
    (docs/find-the-bottleneck.md); 0: none. A page that takes long is asked for more rarely, so
    that no process spends more than 5 % of its time on it."""
    min_free_disk_gb: float = 1.0
    """Free space the preflight wants in the results folder and the cache folder, GB."""
