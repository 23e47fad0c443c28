"""python -m launcher: compose, plan, check, then preview or submit."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launcher.batch import job_name, sbatch_text
from launcher.errors import LauncherError, PlanError
from launcher.follow import follow
from launcher.mistakes import explain, nearest, open_keys, unknown_keys
from launcher.placement import Placement, place
from launcher.plan import LaunchPlan, build_plan
from launcher.preview import PREVIEW_DIR, preview_document, preview_text
from launcher.provenance import checkout_state, provenance
from launcher.render import plan_document
from launcher.schema import LaunchConfig, register
from launcher.site import settle_paths, site_problems, surroundings
from launcher.steps import Surroundings
from launcher.submit import Submitted, make_run_dir, run_document, submit
from launcher.validate import check_config

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"
GROUPS = ("cluster", "topology", "model", "flags", "engine", "router", "workload", "accuracy")

composed: list[tuple[DictConfig, dict[str, str], list[str]]] = []
"""What Hydra composed, with chosen options and overrides; several in a multirun."""


def typed(config: DictConfig) -> LaunchConfig:
    """The composed configuration as typed values; open `???` are named all at once."""
    missing = sorted(open_keys(config))
    if missing:
        raise PlanError(
            f"{key} is not set (???): give it a value, as in {key}=..." for key in missing
        )
    unknown = unknown_keys(config, LaunchConfig)
    if unknown:
        raise PlanError(
            f"{key}: unknown key; nearest valid keys: {nearest(key)}" for key in unknown
        )
    made = OmegaConf.to_object(config)
    if not isinstance(made, LaunchConfig):
        raise LauncherError("conf/config.yaml: its defaults list must start with launch_schema")
    return made


def checked(config: DictConfig) -> LaunchConfig:
    """The typed configuration, its warnings printed, or PlanError with all that is wrong."""
    made = typed(config)
    settle_paths(made)
    for warning in check_config(made):
        sys.stderr.write(f"warning: {warning}\n")
    if made.dry_run.lower() == "false":
        problems = list(site_problems(made, surroundings(made, sys.executable)))
        if problems:
            raise PlanError(problems)
    return made


def launch(config: LaunchConfig, labels: dict[str, str], overrides: list[str]) -> int:
    """One checked configuration, previewed or submitted. Returns the exit code."""
    plan = build_plan(config)
    placement = place(plan)
    around = surroundings(config, sys.executable)
    if config.dry_run.lower() != "false":
        _preview(plan, placement, around, labels, list(site_problems(config, around)))
        return 0
    submitted = _submit(plan, placement, around, labels, overrides)
    wait = config.wait.lower()
    if wait == "true" or (wait == "auto" and config.cluster.executor == "local"):
        return follow(submitted, around, sys.stdout)
    return 0


def _preview(
    plan: LaunchPlan,
    placement: Placement,
    around: Surroundings,
    labels: dict[str, str],
    problems: list[str],
) -> None:
    name = job_name(plan, labels["topology"])
    slurm = plan.config.cluster.executor == "slurm"
    script = sbatch_text(plan, placement, name, PREVIEW_DIR, around) if slurm else None
    document = preview_document(plan_document(plan, placement, around), script)
    if plan.config.dry_run.lower() == "json":
        for problem in problems:
            sys.stderr.write(f"warning: {problem}\n")
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    problems = [f"{problem} (a submission would stop here)" for problem in problems]
    sys.stdout.write(preview_text(document, problems) + "\n")


def _submit(
    plan: LaunchPlan,
    placement: Placement,
    around: Surroundings,
    labels: dict[str, str],
    overrides: list[str],
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
    label = job_name(plan, labels["topology"])
    run_dir = make_run_dir(config.cluster.results_dir, label)
    document = run_document(
        plan,
        plan_document(plan, placement, around),
        run_dir.name,
        labels,
        provenance(checkout, overrides),
    )
    submitted = submit(plan, placement, document, run_dir, around, checkout.diff)
    what = "job" if config.cluster.executor == "slurm" else "local job"
    sys.stdout.write(
        f"submitted {what} {submitted.job_id}: {label} on {placement.nodes} nodes, "
        f"{plan.serving_gpus} serving of {placement.allocated_gpus} GPUs, "
        f"{len(plan.points)} points\n"
        f"run directory  {run_dir}\n"
        f"its log        tail -F {submitted.log}\n"
        f"its table      {Path(around.python).name} -m analysis table {run_dir}\n"
    )
    sys.stdout.flush()
    return submitted


@hydra.main(version_base=None, config_path=str(CONF_DIR), config_name="config")
def _collect(config: DictConfig) -> None:
    chosen = HydraConfig.get().runtime.choices
    labels = {group: str(chosen[group]) for group in GROUPS}
    raw: Any = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    composed.append((config, labels, list(raw)))


def _check_all() -> list[LaunchConfig]:
    """Every configuration checked before the first is submitted; all problems in one error."""
    configs: list[LaunchConfig] = []
    problems: list[str] = []
    for config, _, overrides in composed:
        where = f" [{' '.join(overrides)}]" if len(composed) > 1 else ""
        keys = Counter(entry.split("=", 1)[0].lstrip("+~") for entry in overrides)
        twice = [key for key, count in keys.items() if count > 1]
        problems += [f"{key} is given more than once: give it once{where}" for key in twice]
        try:
            configs.append(checked(config))
        except PlanError as error:
            problems += [f"{problem}{where}" for problem in error.problems]
    if problems:
        raise PlanError(problems)
    return configs


def _run() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LAUNCHER_SCRATCH"] = scratch
        _collect()
    configs = _check_all()
    codes = [
        launch(config, labels, overrides)
        for config, (_, labels, overrides) in zip(configs, composed, strict=True)
    ]
    sys.stdout.flush()
    return max(codes, default=0)


def main() -> int:
    """Run the command line; every mistake of the user's is one message and exit code 2."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    register()
    try:
        return _run()
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
