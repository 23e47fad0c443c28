"""Every combination of a sweep composed and checked, alone and as the job that it is part of."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from launcher.composing import CONF_DIR
from launcher.diagnosis import diagnose_each, judged, placed, shared_first, told_apart
from launcher.errors import PlanError
from launcher.schema import LaunchConfig
from launcher.sweep.composer import Composer
from launcher.sweep.group_checks import whole
from launcher.sweep.groups import Group, Member, grouped
from launcher.sweep.labels import label_of
from launcher.sweep.record import short
from launcher.sweep_axes import Axes

WRONG = (PlanError, HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
ONE_ONLY = ("dry_run", "wait", "check", "allow_dirty", "cluster.executor", "cluster.results_dir")
"""Keys that speak of the whole sweep."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The combinations of a sweep: those that can run, and why the others cannot."""

    members: list[Member]
    warnings: Mapping[int, tuple[str, ...]]
    skipped: Mapping[int, tuple[str, ...]]
    whole: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Number of a job's first combination -> warnings of the job as a whole."""

    def warnings_of(self, group: Group) -> list[str]:
        """Warnings of a job: of each of its combinations, and of all together, each once."""
        alone = [text for member in group.members for text in self.warnings[member.number]]
        together = self.whole.get(group.members[0].number, ())
        return list(dict.fromkeys([*alone, *together]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep that is in order, before anything of it is submitted."""

    words: Sequence[str]
    axes: Axes
    combinations: Sequence[tuple[str, ...]]
    groups: Sequence[Group]
    made: Checked

    @property
    def first(self) -> LaunchConfig:
        """The first job's configuration: what speaks of the whole sweep is alike in all."""
        return self.groups[0].plan.config


def checked(words: Sequence[str]) -> Sweep:
    """The sweep of a command line; PlanError with everything that is wrong with it."""
    composer = Composer()
    axes = composer.axes(words)
    _axes_in_order(axes)
    combinations = axes.combinations()
    if repeated := [entry for entry, count in Counter(combinations).items() if count > 1]:
        raise PlanError(
            f"the sweep has {short(entry, axes.swept)} more than once: give it once"
            for entry in repeated
        )
    made = _check_all(composer, combinations, told_apart(combinations))
    _shared_settings(made)
    groups = grouped(made.members, made.members[0].config.sweep.order)
    made = _check_whole(groups, made, axes)
    return Sweep(words=words, axes=axes, combinations=combinations, groups=groups, made=made)


def _axes_in_order(axes: Axes) -> None:
    wrong = [key for key in axes.swept if key in ONE_ONLY or key.startswith("sweep.")]
    if wrong:
        raise PlanError(
            f"{key}: speaks of the whole sweep, so it cannot be an axis" for key in wrong
        )
    if empty := [key for key, values in axes.columns if not values]:
        raise PlanError(f"{key}: no option matches, so there is nothing to run" for key in empty)


def _check_all(
    composer: Composer, combinations: Sequence[tuple[str, ...]], names: Sequence[str]
) -> Checked:
    """Every combination composed and checked; PlanError with all problems of all of them.

    With sweep.skip_invalid those that are wrong are left out, unless nothing is left.
    """
    members: list[Member] = []
    warnings: dict[int, tuple[str, ...]] = {}
    bad: dict[int, tuple[str, ...]] = {}
    for number, overrides in enumerate(combinations):
        try:
            made = composer.made(overrides)
        except WRONG as error:
            problems = diagnose_each(overrides, CONF_DIR, sys.executable)
            if not problems and not isinstance(error, PlanError):
                raise
            bad[number] = problems or getattr(error, "problems", ())
            continue
        found = judged(made.config, sys.executable)
        warnings[number] = found.warnings
        if found.problems:
            at = placed(found.problems, overrides, made.labels, CONF_DIR)
            bad[number] = tuple(at)
            continue
        members.append(
            Member(number=number, config=made.config, labels=made.labels, overrides=overrides)
        )
    if bad and not (members and all(member.config.sweep.skip_invalid for member in members)):
        wrong = {name: bad.get(number, ()) for number, name in enumerate(names)}
        raise PlanError(shared_first(wrong))
    return Checked(members, warnings, bad)


def _check_whole(groups: Sequence[Group], made: Checked, axes: Axes) -> Checked:
    """With what is to be said of each job as a whole; PlanError where one cannot be."""
    problems, warnings = [], {}
    for group in groups:
        found = whole(group, made.warnings)
        label = f"job {label_of(group, axes)}, {len(group.plan.points)} points"
        problems += [f"{text} [{label}]" for text in found.problems]
        warnings[group.members[0].number] = tuple(f"{t} [{label}]" for t in found.warnings)
    if problems:
        raise PlanError(problems)
    return replace(made, whole=warnings)


def _shared_settings(made: Checked) -> None:
    configs = [member.config for member in made.members]
    if len({(config.cluster.executor, config.cluster.results_dir) for config in configs}) > 1:
        raise PlanError(
            [
                "cluster.executor, cluster.results_dir: all jobs of a sweep share them; start "
                "one sweep for each"
            ]
        )
    first = configs[0]
    if first.cluster.executor == "local" and first.wait.lower() == "false":
        raise PlanError(
            [
                "wait=false with cluster.executor=local: a sweep on this machine runs its jobs one "
                "after another and has to stay; leave wait out"
            ]
        )
