"""The batch script of a run: submitit's text around `python -m jobs run RUN`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from submitit.slurm.slurm import _make_sbatch_string

from launcher.placement import Placement
from launcher.plan import LaunchPlan
from launcher.segment import segment_of
from launcher.steps import Surroundings


def job_name(plan: LaunchPlan, topology: str) -> str:
    """What squeue shows: the run's label, or its topology."""
    return plan.config.name or topology


PREVIEW_SNAPSHOT = "SHA256"
"""Stands for the snapshot's hash, which only a submission has."""


SIGNALS_WAIT = (
    "$(env --block-signal=TERM true 2>/dev/null && echo --block-signal=TERM,INT,HUP,USR2)"
)
"""An option of env (coreutils 8.31 or later; nothing with an older one): a stop signal that comes
while the interpreter starts waits until the run can obey it, instead of ending it without a word.
The driver itself lets it through (jobs/stop_signals.py)."""


def batch_command(
    run_dir: str, around: Surroundings, snapshot: str | None = PREVIEW_SNAPSHOT
) -> str:
    """The one command of the batch step, for a shell; exec, so that Slurm's signal reaches the
    driver itself.

    -P: a job starts in the folder it was submitted from, whose jobs/ must not be taken for the
    snapshot's.
    """
    words = [f"{key}={value}" for key, value in around.env.items()]
    words += ["PYTHONUNBUFFERED=1", around.python, "-P", "-m", "jobs", "run", run_dir]
    words += ["--snapshot", snapshot] if snapshot else []
    return f"exec env {SIGNALS_WAIT} {shlex.join(words)}"


def comment(plan: LaunchPlan, labels: Mapping[str, str]) -> str:
    """What squeue --Format=comment and sacct show of a job: what it serves, what it measures."""
    names = [point.name for point in plan.points]
    points = ", ".join(names) if len(names) < 3 else f"{names[0]} .. {names[-1]}"
    asked = plan.config.accuracy.dataset
    engine = f"{plan.config.engine.name} {plan.config.engine.release}"
    what = f"{labels['model']} on {labels['topology']}, {engine}, flags {labels['flags']}"
    more = "" if asked == "none" else f" + {asked}"
    return f"{what}: {len(names)} points {points}{more}"


def sbatch_parameters(
    plan: LaunchPlan,
    placement: Placement,
    name: str,
    smaller: int | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Options for submitit's SlurmExecutor; `smaller` is a segment instead of the plan's own.

    `more` are options that only the submission knows: comment, dependency on other jobs.

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
    for key in ("account", "partition", "qos", "reservation", "exclude", "dependency"):
        if getattr(cluster, key) is not None:
            options[key] = getattr(cluster, key)
    options |= more or {}
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
    more: Mapping[str, str] | None = None,
    snapshot: str | None = PREVIEW_SNAPSHOT,
) -> str:
    """The batch script as it will be submitted."""
    text = _make_sbatch_string(
        command=batch_command(run_dir, around, snapshot),
        folder=f"{run_dir}/submitit",
        **sbatch_parameters(plan, placement, name, smaller, more),
    )
    return str(text)
