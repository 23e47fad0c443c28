"""python -m launcher: compose, plan, check, then preview or submit."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from launcher.batch import job_name, sbatch_text
from launcher.composing import CONF_DIR, Combination, compose_all, typed
from launcher.diagnosis import diagnose, judged, placed, shared_first, suspicious
from launcher.engines import ENGINES
from launcher.errors import LauncherError, PlanError
from launcher.follow import follow
from launcher.mistakes import explain
from launcher.placement import Placement, place
from launcher.plan import LaunchPlan, build_plan
from launcher.preview import PREVIEW_DIR, preview_document, preview_text
from launcher.provenance import checkout_state, provenance
from launcher.render import plan_document
from launcher.schema import LaunchConfig, register
from launcher.site import model_files, site_problems, surroundings
from launcher.steps import Surroundings
from launcher.submit import Submitted, make_run_dir, run_document, submit
from launcher.validate import Findings


def launch(config: LaunchConfig, made: Combination, warnings: Sequence[str]) -> int:
    """One checked configuration, previewed or submitted. Returns the exit code."""
    plan = build_plan(config)
    placement = place(plan)
    around = surroundings(config, sys.executable)
    if config.dry_run.lower() != "false":
        missing = [
            f"{problem} (a submission would stop here)" for problem in site_problems(config, around)
        ]
        _preview(plan, placement, around, made.labels, [*warnings, *missing])
        return 0
    submitted = _submit(plan, placement, around, made, warnings)
    wait = config.wait.lower()
    if wait == "true" or (wait == "auto" and config.cluster.executor == "local"):
        return follow(submitted, around)
    return 0


def _preview(
    plan: LaunchPlan,
    placement: Placement,
    around: Surroundings,
    labels: Mapping[str, str],
    warnings: list[str],
) -> None:
    name = job_name(plan, labels["topology"])
    slurm = plan.config.cluster.executor == "slurm"
    script = sbatch_text(plan, placement, name, PREVIEW_DIR, around) if slurm else None
    capacity = ENGINES[plan.config.engine.kind].capacity(plan)
    document = preview_document(plan_document(plan, placement, around), script, warnings, capacity)
    if plan.config.dry_run.lower() == "json":
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    sys.stdout.write(preview_text(document, capacity) + "\n")


def _submit(
    plan: LaunchPlan,
    placement: Placement,
    around: Surroundings,
    made: Combination,
    warnings: Sequence[str],
) -> Submitted:
    config = plan.config
    checkout = checkout_state(Path(around.code_dir))
    if checkout.changes and config.engine.kind != "rehearsal" and not config.allow_dirty:
        first = ", ".join(line[3:] for line in checkout.changes.splitlines()[:5])
        raise LauncherError(
            f"the checkout {around.code_dir} has uncommitted changes ({first}): commit them, so "
            "that the run can be repeated, or pass allow_dirty=true (the diff is then kept with "
            "the run)"
        )
    label = job_name(plan, made.labels["topology"])
    run_dir = make_run_dir(config.cluster.results_dir, label)
    document = run_document(
        plan,
        plan_document(plan, placement, around),
        run_dir.name,
        dict(made.labels),
        provenance(checkout, list(made.overrides)),
    )
    document["warnings"] = list(warnings)
    document["plan"]["preflight"]["model_files"] = model_files(config)
    submitted = submit(plan, placement, document, run_dir, around, checkout.diff)
    what = "job" if config.cluster.executor == "slurm" else "local job"
    table = shlex.join([Path(around.python).name, "-m", "analysis", "table", str(run_dir)])
    sys.stdout.write(
        f"submitted {what} {submitted.job_id}: {label} on {placement.nodes} nodes, "
        f"{plan.serving_gpus} serving of {placement.allocated_gpus} GPUs, "
        f"{len(plan.points)} points\n"
        f"{_segment_line(submitted)}run directory  {shlex.quote(str(run_dir))}\n"
        f"its log        tail -F {shlex.quote(str(submitted.log))}\n"
        f"its table      {table}\n"
    )
    sys.stdout.flush()
    return submitted


def _segment_line(submitted: Submitted) -> str:
    """Told only where it is not the segment that was asked for."""
    told = submitted.segment
    return (
        f"segment        {told['used']} instead of {told['asked']}: {told['why']}\n" if told else ""
    )


def _warn(checked_all: Sequence[tuple[LaunchConfig, tuple[str, ...]]], names: list[str]) -> None:
    """Warnings on stderr, once where all combinations share one; a dry run prints its own."""
    if len(checked_all) == 1 and checked_all[0][0].dry_run.lower() != "false":
        return
    found = {name: warnings for name, (_, warnings) in zip(names, checked_all, strict=True)}
    for warning in shared_first(found):
        sys.stderr.write(f"warning: {warning}\n")


def _run(words: list[str]) -> int:
    """Every configuration checked before the first is submitted."""
    try:
        combinations = compose_all(words)
        configs = [typed(combination.config) for combination in combinations]
    except (PlanError, HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        problems = diagnose(words, CONF_DIR, sys.executable)
        raise (PlanError(problems) if problems else error) from error
    if suspicious(words, CONF_DIR) and (problems := diagnose(words, CONF_DIR, sys.executable)):
        raise PlanError(problems)
    names = [" ".join(combination.overrides) for combination in combinations]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise PlanError(f"the sweep has {name} more than once: give it once" for name in repeated)
    findings = [judged(config, sys.executable) for config in configs]
    if any(found.problems for found in findings):
        raise PlanError(_told(findings, combinations, names))
    made = [(config, found.warnings) for config, found in zip(configs, findings, strict=True)]
    _warn(made, names)
    codes = [
        launch(config, combination, warnings)
        for (config, warnings), combination in zip(made, combinations, strict=True)
    ]
    sys.stdout.flush()
    return max(codes, default=0)


def _told(
    findings: Sequence[Findings], combinations: Sequence[Combination], names: Sequence[str]
) -> Iterator[str]:
    """Problems of all combinations, each with its place."""
    found = {
        name: placed(each.problems, made.overrides, made.labels, CONF_DIR)
        for name, each, made in zip(names, findings, combinations, strict=True)
    }
    return shared_first(found)


def main() -> int:
    """Run the command line; every mistake of the user's is one message and exit code 2."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    register()
    try:
        return _run(sys.argv[1:])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LauncherError as error:
        sys.stderr.write(f"error: {error}\n")
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        sys.stderr.write(f"error: {explain(error, CONF_DIR)}\n")
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'output'}: {error.strerror}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
