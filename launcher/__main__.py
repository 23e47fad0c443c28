"""python -m launcher: compose, plan, check, then preview or submit."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from launcher.composing import CONF_DIR, Combination, compose_all, is_multirun, is_sweep, typed
from launcher.diagnosis import diagnose, judged, placed, suspicious
from launcher.errors import LauncherError, PlanError
from launcher.follow import follow
from launcher.launching import Job, clean_enough, document_of, hand_over, new_run_dir, preview, told
from launcher.mistakes import explain
from launcher.placement import place
from launcher.plain_text import printable
from launcher.plan import build_plan
from launcher.provenance import checkout_state
from launcher.schema import LaunchConfig, register
from launcher.site import site_problems, surroundings
from launcher.snapshot import take
from launcher.submit import Submitted, undo
from launcher.sweep.run import run_sweep


def launch(config: LaunchConfig, made: Combination, warnings: Sequence[str]) -> int:
    """One checked configuration, previewed or submitted. Returns the exit code."""
    plan = build_plan(config)
    job = Job(
        plan=plan,
        placement=place(plan),
        labels=made.labels,
        overrides=made.overrides,
        warnings=warnings,
    )
    around = surroundings(config, sys.executable)
    if config.dry_run.lower() != "false":
        missing = [
            f"{problem} (a submission would stop here)" for problem in site_problems(config, around)
        ]
        preview(job, [*warnings, *missing])
        return 0
    submitted = _submit(job)
    wait = config.wait.lower()
    if wait == "true" or (wait == "auto" and config.cluster.executor == "local"):
        return follow(submitted, around)
    return 0


def _submit(job: Job) -> Submitted:
    config = job.plan.config
    around = surroundings(config, sys.executable)
    checkout = checkout_state(Path(around.code_dir))
    clean_enough(checkout, config, around.code_dir)
    run_dir = new_run_dir(job, config.cluster.results_dir)
    with undo(run_dir):
        snapshot = take(Path(around.code_dir), run_dir)
        document = document_of(job, snapshot, checkout)
        submitted = hand_over(job, document, run_dir, snapshot, checkout.diff)
    sys.stdout.write(told(job, submitted, around.python))
    sys.stdout.flush()
    return submitted


def _run(words: list[str]) -> int:
    """Every configuration checked before the first is submitted."""
    if is_sweep(words):
        return run_sweep(words)
    try:
        combinations = compose_all(words)
        _only_one(combinations, words)
        configs = [typed(combination.config) for combination in combinations]
    except (PlanError, HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        problems = diagnose(words, CONF_DIR, sys.executable)
        raise (PlanError(problems) if problems else error) from error
    if suspicious(words, CONF_DIR) and (problems := diagnose(words, CONF_DIR, sys.executable)):
        raise PlanError(problems)
    codes = []
    for config, made in zip(configs, combinations, strict=True):
        found = judged(config, sys.executable)
        if found.problems:
            raise PlanError(placed(found.problems, made.overrides, made.labels, CONF_DIR))
        if config.dry_run.lower() == "false":  # a dry run prints its own
            for warning in found.warnings:
                sys.stderr.write(f"warning: {printable(warning)}\n")
        codes.append(launch(config, made, found.warnings))
    sys.stdout.flush()
    return max(codes, default=0)


def _only_one(combinations: Sequence[Combination], words: Sequence[str]) -> None:
    """PlanError for a sweep with options besides -m, which Hydra would take run by run."""
    if len(combinations) > 1:
        others = [word for word in words if word.startswith("-") and not is_multirun(word)]
        raise PlanError([f"a sweep takes -m and overrides alone: leave out {', '.join(others)}"])


def main() -> int:
    """Run the command line; every mistake of the user's is one message and exit code 2."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    register()
    try:
        return _run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130  # the shell's word for Ctrl-C
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LauncherError as error:
        sys.stderr.write(f"error: {printable(str(error))}\n")
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        sys.stderr.write(f"error: {printable(explain(error, CONF_DIR))}\n")
    except OSError as error:
        where = printable(str(error.filename or "output"))
        sys.stderr.write(f"error: {where}: {error.strerror}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
