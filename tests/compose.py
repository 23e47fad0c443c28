"""Configurations composed from the real conf/, planned against fixed surroundings."""

from __future__ import annotations

import copy
import os
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir

from launcher.batch import sbatch_text
from launcher.capacity import Capacity
from launcher.composing import CONF_DIR, typed
from launcher.engines import ENGINES
from launcher.placement import Placement, place
from launcher.plan import LaunchPlan, build_plan
from launcher.preview import PREVIEW_DIR, preview_document, preview_text
from launcher.render import plan_document
from launcher.schema import LaunchConfig, register
from launcher.steps import Surroundings

AROUND = Surroundings(
    python="/launcher/bin/python", code_dir="/launcher/code", env={"PYTHONPATH": "/launcher/code"}
)


def config_of(*overrides: str) -> LaunchConfig:
    """The typed configuration of a command line, the caller's own."""
    return copy.deepcopy(_composed(overrides, tuple(os.environ.get(name) for name in READ)))


READ = ("ENGINE_ENV", "GSM8K_DIR", "LAUNCHER_SCRATCH")
"""Environment variables that conf/ reads."""


@cache
def _composed(overrides: tuple[str, ...], _: tuple[str | None, ...]) -> LaunchConfig:
    """Many tests ask several things of one command line; composing it is most of their time."""
    register()
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        return typed(compose("config", overrides=list(overrides)))


def plan_of(*overrides: str) -> tuple[LaunchPlan, Placement]:
    """Plan and placement of a command line."""
    plan = build_plan(config_of(*overrides))
    return plan, place(plan)


def document_of(*overrides: str) -> dict[str, Any]:
    """The dry run's JSON document of a command line."""
    plan, placement = plan_of(*overrides)
    script = None
    if plan.config.cluster.executor == "slurm":
        script = sbatch_text(plan, placement, "run", PREVIEW_DIR, AROUND)
    return preview_document(plan_document(plan, placement, AROUND), script, (), _capacity(plan))


def capacity_of(*overrides: str) -> Capacity | None:
    """What the engine works out for a command line."""
    return _capacity(build_plan(config_of(*overrides)))


def _capacity(plan: LaunchPlan) -> Capacity | None:
    return ENGINES[plan.config.engine.kind].capacity(plan)


def text_of(*overrides: str) -> str:
    """The dry run's text of a command line."""
    return preview_text(document_of(*overrides), capacity_of(*overrides)) + "\n"
