"""What is wrong with a configuration, all of it at once, from the configuration alone."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import MISSING

from launcher.engine_rules import (
    derived_flags,
    engine_advice,
    engine_rules,
    environment,
    known_bad_errors,
    known_bad_warnings,
    router_flags,
)
from launcher.errors import LauncherError, PlanError
from launcher.estimate import time_enough
from launcher.form_rules import load, roles, safe_text, site, words
from launcher.kinds import hints, stand_in
from launcher.limits import numbers, owned_options
from launcher.open_values import open_texts
from launcher.placement_rules import (
    arithmetic,
    crowded_ports,
    second_choices_have_effect,
    segment_has_effect,
)
from launcher.privacy import secret_settings
from launcher.prompts import prompt_problems
from launcher.schema import LaunchConfig
from launcher.sizes import allocation, cpus, one_domain, sequences
from launcher.slurm_words import (
    drops_environment,
    node_lists,
    nothing_words,
    sbatch_names,
    shares_nodes,
    srun_options,
)
from launcher.steady import steady
from launcher.time_limit import grace_for_teardown, time_limit
from launcher.written_paths import cache_folder, env_names, log_paths, mounted_paths
from launcher.yaml_words import env_booleans, env_booleans_elsewhere, sbatch_values

Rule = Callable[[LaunchConfig], Iterator[str]]

LEADING_KEY = re.compile(r"([a-z_]+(?:\.[\w-]+)*)")
"""Every problem begins with the key it speaks of."""
SHAPE_KEYS = ("topology", "cluster.gpus_per_node")
"""Without these nothing can be placed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What the rules found."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def check_config(config: LaunchConfig) -> tuple[str, ...]:
    """Every warning; PlanError with every problem, which with check=strict the warnings are too."""
    findings = find(config)
    if findings.problems:
        raise PlanError(findings.problems)
    if findings.warnings and config.check == "strict":
        raise PlanError(
            f"{warning} (a warning; check=strict stops at it)" for warning in findings.warnings
        )
    return findings.warnings


def find(config: LaunchConfig) -> Findings:
    """All problems and warnings. A value of impossible form hides no other value's problem.

    Values that a form rule refuses are replaced by harmless ones before the rules that need a
    plan are run; where the topology itself cannot be, those are left out.
    """
    with steady():
        return _find(config)


def _find(config: LaunchConfig) -> Findings:
    problems = [problem for rule in FORM_RULES for problem in rule(config)]
    refused = {match.group(1) for text in problems if (match := LEADING_KEY.match(text))}
    if any(key.startswith(SHAPE_KEYS) for key in refused):
        return Findings(tuple(dict.fromkeys(problems)), ())
    sound = with_stand_ins(config, refused) if refused else config
    problems += [problem for rule in PLAN_RULES for problem in _applied(rule, sound)]
    warnings = [warning for rule in ADVICE_RULES for warning in _applied(rule, sound, told=False)]
    return Findings(tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(warnings)))


def _applied(rule: Rule, config: LaunchConfig, told: bool = True) -> Iterator[str]:
    """What a rule yields; one that needs a plan says so itself where there is none."""
    try:
        yield from rule(config)
    except LauncherError as error:
        if told:
            yield str(error)


def with_stand_ins(config: LaunchConfig, keys: set[str]) -> LaunchConfig:
    """A copy with harmless values at `keys`: the schema's defaults, else the smallest of a kind."""
    sound, known = copy.deepcopy(config), hints()
    for key in keys & set(known):
        *path, name = key.split(".")
        node: Any = sound
        for part in path:
            node = node[part] if isinstance(node, dict) else getattr(node, part)
        fresh = getattr(type(node)(), name, MISSING)
        setattr(node, name, stand_in(known[key]) if fresh == MISSING else fresh)
    return sound


FORM_RULES: tuple[Rule, ...] = (
    *(words, numbers, roles, load, site, time_limit, owned_options, env_booleans, sbatch_values),
    *(safe_text, srun_options, sbatch_names, node_lists, nothing_words),
    *(cache_folder, log_paths, mounted_paths, env_names),
    prompt_problems,
    open_texts,
)
PLAN_RULES: tuple[Rule, ...] = (
    allocation,
    environment,
    prompt_problems,
    secret_settings,
    engine_rules,
    derived_flags,
    router_flags,
    arithmetic,
    known_bad_errors,
)
ADVICE_RULES: tuple[Rule, ...] = (
    segment_has_effect,
    second_choices_have_effect,
    engine_advice,
    known_bad_warnings,
    time_enough,
    grace_for_teardown,
    one_domain,
    cpus,
    sequences,
    crowded_ports,
    env_booleans_elsewhere,
    shares_nodes,
    drops_environment,
)
