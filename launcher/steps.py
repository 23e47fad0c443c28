"""A step as data, and the exact line that starts it: through srun, a container, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.containers import enter_container
from launcher.placement import node_name
from launcher.schema import ClusterConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the plan must know of the machine that renders it; all of it is text in commands."""

    python: str
    """Interpreter of the driver and of our own programs, as seen from the nodes."""
    code_dir: str
    """Checkout that holds launcher/, jobs/ and conf/, as seen from the nodes."""
    env: Mapping[str, str]
    """Variables that our own programs need to find that checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One process of the run: `argv` is the program's own command, `env` what it is given."""

    name: str
    node: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    gpus: int = 0
    """GPUs it works on, for its share of a node's CPUs; 0 for router and clients."""
    contained: bool = True
    """Whether it runs inside the container, where the cluster has one."""

    @property
    def log(self) -> str:
        """Its log's file name under logs/."""
        return f"{self.name}.log"


def command_line(step: Step, cluster: ClusterConfig, mounts: tuple[str, ...]) -> list[str]:
    """The full line the job starts for a step; environment by `env K=V`: no shell reads it."""
    inner = list(step.argv)
    if step.env:
        inner = ["env", *(f"{key}={value}" for key, value in step.env.items()), *inner]
    options: list[str] = []
    if step.contained:
        options, inner = enter_container(cluster.container, mounts, inner)
    if cluster.executor == "local":
        return inner
    return [*srun_argv(step, cluster), *options, *inner]


def srun_argv(step: Step, cluster: ClusterConfig) -> list[str]:
    """srun pinned to the step's node, sharing it with other steps of the job.

    --cpus-per-task is written out since srun no longer inherits it (Slurm 22.05); --export=ALL
    because a portal's SLURM_EXPORT_ENV would switch export off; all GPUs of the node are visible
    to the step and CUDA_VISIBLE_DEVICES in its environment chooses among them.
    """
    argv = [
        "srun",
        f"--job-name={step.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node_name(step.node)}",
        "--overlap",
        f"--cpus-per-task={_cpus(step, cluster)}",
        "--cpu-bind=none",
        "--mem=0",
        f"--gpus-per-node={cluster.gpus_per_node}",
        "--export=ALL",
        "--kill-on-bad-exit=1",
        "--unbuffered",
        "--input=none",
    ]
    return [*argv, *cluster.srun]


def _cpus(step: Step, cluster: ClusterConfig) -> int:
    """CPUs of a step: the node's, shared out by GPUs; 1 where their number is not configured."""
    if cluster.cpus_per_node is None:
        return 1
    if step.gpus == 0:
        return max(1, cluster.cpus_per_node // (2 * cluster.gpus_per_node))
    return max(1, cluster.cpus_per_node * step.gpus // cluster.gpus_per_node)


def step_document(step: Step, cluster: ClusterConfig, mounts: tuple[str, ...]) -> dict[str, Any]:
    """The step as run.json and the JSON dry run have it."""
    return {
        "name": step.name,
        "node": step.node,
        "argv": list(step.argv),
        "env": dict(step.env),
        "command": command_line(step, cluster, mounts),
        "log": step.log,
    }
