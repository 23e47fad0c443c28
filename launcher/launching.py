"""One job: its preview, or its submission with everything that the run will ever know."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.batch import comment, job_name, sbatch_text
from launcher.engines import ENGINES
from launcher.errors import LauncherError
from launcher.placement import Placement
from launcher.plain_text import counted
from launcher.plan import LaunchPlan
from launcher.preview import PREVIEW_DIR, preview_document, preview_text
from launcher.provenance import Checkout, provenance
from launcher.render import plan_document
from launcher.schema import LaunchConfig
from launcher.site import model_files, surroundings
from launcher.snapshot import Snapshot, running_from
from launcher.submit import Order, Submitted, make_run_dir, run_document, submit


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to submit as one job."""

    plan: LaunchPlan
    placement: Placement
    labels: Mapping[str, str]
    overrides: Sequence[str]
    warnings: Sequence[str] = ()
    label: str | None = None
    """Name of folder and job; None: the run's name or its topology."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More entries of run.json: the sweep it belongs to."""
    measured: frozenset[int] | None = None
    """Indices of the points to be measured; None: all. The deployment is the same for any."""
    asks: bool = True
    """Whether the plan's accuracy is to be measured."""

    def asks_now(self) -> bool:
        """Whether it measures an accuracy."""
        return self.asks and self.plan.config.accuracy.dataset != "none"

    @property
    def name(self) -> str:
        """What squeue shows, without its unique end."""
        return self.label or job_name(self.plan, self.labels["topology"])


def preview(job: Job, warnings: Sequence[str]) -> None:
    """The dry run of one job on stdout."""
    plan, placement = job.plan, job.placement
    around = surroundings(plan.config, sys.executable)
    slurm = plan.config.cluster.executor == "slurm"
    more = {"comment": comment(plan, job.labels)}
    script = (
        sbatch_text(plan, placement, job.name, PREVIEW_DIR, around, more=more) if slurm else None
    )
    capacity = ENGINES[plan.config.engine.kind].capacity(plan)
    document = preview_document(plan_document(plan, placement, around), script, warnings, capacity)
    if plan.config.dry_run.lower() == "json":
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    sys.stdout.write(preview_text(document, capacity) + "\n")


def clean_enough(checkout: Checkout, config: LaunchConfig, code_dir: str) -> None:
    """LauncherError for a checkout with uncommitted changes, unless they may be submitted."""
    if checkout.changes and config.engine.kind != "rehearsal" and not config.allow_dirty:
        first = ", ".join(line[3:] for line in checkout.changes.splitlines()[:5])
        raise LauncherError(
            f"the checkout {code_dir} has uncommitted changes ({first}): commit them, so "
            "that the run can be repeated, or pass allow_dirty=true (the diff is then kept with "
            "the run)"
        )


def document_of(job: Job, snapshot: Snapshot, checkout: Checkout) -> dict[str, Any]:
    """run.json of a job, all its points in it; its run directory gives it its id."""
    plan, config = job.plan, job.plan.config
    around = running_from(snapshot, surroundings(config, sys.executable))
    document = run_document(
        plan,
        plan_document(plan, job.placement, around),
        "",
        dict(job.labels),
        provenance(checkout, list(job.overrides)),
    )
    if job.label:
        document["name"] = job.label
    document["warnings"] = list(job.warnings)
    document["plan"]["preflight"]["model_files"] = model_files(config)
    document["code_dir"] = around.code_dir
    return document | dict(job.facts)


def hand_over(
    job: Job,
    document: dict[str, Any],
    run_dir: Path,
    snapshot: Snapshot,
    diff: str,
    dependency: str | None = None,
) -> Submitted:
    """Submits one job into its run directory; SubmissionError undoes it."""
    plan, placement, config = job.plan, job.placement, job.plan.config
    around = running_from(snapshot, surroundings(config, sys.executable))
    document["run_id"] = run_dir.name
    if job.measured is not None:
        points = document["plan"]["points"]
        document["plan"]["points"] = [p for p in points if p["index"] in job.measured]
    if not job.asks:
        document["plan"]["accuracy"] = None
    options = {"comment": comment(plan, job.labels)}
    wanted = ",".join(filter(None, [config.cluster.dependency, dependency]))
    options |= {"dependency": wanted} if wanted else {}
    order = Order(
        plan=plan,
        placement=placement,
        run_dir=run_dir,
        around=around,
        snapshot=snapshot,
        options=options,
        diff=diff,
    )
    return submit(order, document)


def new_run_dir(job: Job, root: Path | str) -> Path:
    """The folder of one job's run."""
    return make_run_dir(str(root), job.name)


def told(job: Job, submitted: Submitted, python: str) -> str:
    """What a submission says: the job, where it writes, how to see its table."""
    plan, placement = job.plan, job.placement
    points = len(plan.points) if job.measured is None else len(job.measured)
    what = "job" if plan.config.cluster.executor == "slurm" else "local job"
    run_dir = submitted.run_dir
    table = shlex.join([Path(python).name, "-m", "analysis", "table", str(run_dir)])

    def jobs(command: str, *more: str) -> str:
        return shlex.join([Path(python).name, "-m", "jobs", command, str(run_dir), *more])

    return (
        f"submitted {what} {submitted.job_id}: {job.name} on {counted(placement.nodes, 'node')}, "
        f"{plan.serving_gpus} serving of {placement.allocated_gpus} GPUs, "
        f"{counted(points, 'point')}\n"
        f"{_segment_line(submitted)}run directory  {shlex.quote(str(run_dir))}\n"
        f"watch it       {jobs('watch')}\n"
        f"its logs       {jobs('logs', '--follow')}\n"
        f"driver's log   tail -F {shlex.quote(str(submitted.log))}\n"
        f"its table      {table}\n"
    )


def _segment_line(submitted: Submitted) -> str:
    """Told only where it is not the segment that was asked for."""
    told = submitted.segment
    return (
        f"segment        {told['used']} instead of {told['asked']}: {told['why']}\n" if told else ""
    )
