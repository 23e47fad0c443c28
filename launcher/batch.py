"""The batch script of a run: submitit's text around `python -m jobs run RUN`."""

from __future__ import annotations

import shlex
from typing import Any

from submitit.slurm.slurm import _make_sbatch_string

from launcher.placement import Placement
from launcher.plan import LaunchPlan
from launcher.segment import segment_of
from launcher.steps import Surroundings


def job_name(plan: LaunchPlan, topology: str) -> str:
    """What squeue shows: the run's label, or its topology."""
    return plan.config.name or topology


def batch_command(run_dir: str, around: Surroundings) -> str:
    """The one command of the batch step; exec, so that Slurm's signal reaches the driver itself."""
    words = ["exec", "env", *(f"{key}={value}" for key, value in around.env.items())]
    words += ["PYTHONUNBUFFERED=1", around.python, "-m", "jobs", "run", run_dir]
    return shlex.join(words)


def sbatch_parameters(
    plan: LaunchPlan, placement: Placement, name: str, smaller: int | None = None
) -> dict[str, Any]:
    """Options for submitit's SlurmExecutor; `smaller` is a segment instead of the plan's own.

    The node count goes through additional_parameters only: as submitit's own `nodes` it would
    expect one task a node. `B:` sends the end signal to the batch script alone. submitit's own
    wckey is left out: a site that tracks wckeys would refuse it.
    """
    cluster = plan.config.cluster
    options: dict[str, Any] = {
        "nodes": placement.nodes,
        "time": cluster.time,
        "gpus-per-node": cluster.gpus_per_node,
        "exclusive": True,
        "mem": 0,
        "signal": f"B:TERM@{cluster.grace_s}",
        "requeue" if cluster.requeue else "no-requeue": True,
    }
    segment = smaller or segment_of(plan, placement)
    if segment is not None:
        options["segment"] = segment
    for key in ("account", "partition", "qos", "reservation", "exclude"):
        if getattr(cluster, key) is not None:
            options[key] = getattr(cluster, key)
    for key, value in cluster.sbatch.items():
        options[key.replace("_", "-")] = value
    options = {key: value for key, value in options.items() if value is not None}
    parameters: dict[str, Any] = {"job_name": name, "use_srun": False, "stderr_to_stdout": True}
    parameters["wckey"] = None
    parameters["additional_parameters"] = options
    if cluster.setup:
        parameters["setup"] = list(cluster.setup)
    return parameters


def sbatch_text(
    plan: LaunchPlan,
    placement: Placement,
    name: str,
    run_dir: str,
    around: Surroundings,
    smaller: int | None = None,
) -> str:
    """The batch script as it will be submitted."""
    text = _make_sbatch_string(
        command=batch_command(run_dir, around),
        folder=f"{run_dir}/submitit",
        **sbatch_parameters(plan, placement, name, smaller),
    )
    return str(text)
