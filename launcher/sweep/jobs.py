"""The jobs of a sweep, their entries in its record, and what of each is left to be run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from launcher.launching import Job
from launcher.sweep.checks import Sweep
from launcher.sweep.groups import Group
from launcher.sweep.labels import label_of
from launcher.sweep.record import Asked, SweepRecord
from launcher.sweep.reuse import Reusable


def job_of(sweep: Sweep, group: Group) -> Job:
    """The job of one group, all its points in it."""
    words = group.members[0].overrides if len(group.members) == 1 else _common(group)
    return Job(
        plan=group.plan,
        placement=group.placement,
        labels=group.labels,
        overrides=words,
        warnings=sweep.made.warnings_of(group),
        label=label_of(group, sweep.axes),
    )


def _common(group: Group) -> list[str]:
    """Overrides of all the group's combinations, each once."""
    return list(dict.fromkeys(word for member in group.members for word in member.overrides))


def record_of(sweep: Sweep, home: Path) -> SweepRecord:
    """What sweep.json in `home` says before any job is handed over."""
    return SweepRecord(
        path=home,
        words=sweep.words,
        axes=sweep.axes.swept,
        combinations=sweep.combinations,
        settings=sweep.first.sweep,
        skipped=sweep.made.skipped,
        asked=[Asked(group, label_of(group, sweep.axes)) for group in sweep.groups],
    )


def what_is_missing(entry: Asked, job: Job, have: Reusable) -> Job:
    """The job without what is measured already, which the record names with its origin."""
    points = job.plan.points
    entry.content = have.content
    entry.reused = [
        {"point": points[index].name, **origin} for index, origin in have.points.items()
    ]
    entry.accuracy_from = dict(have.accuracy) if have.accuracy else None
    missing = [point for point in points if point.index not in have.points]
    entry.planned = [point.name for point in missing]
    trimmed = replace(
        job,
        measured=frozenset(point.index for point in missing),
        asks=have.accuracy is None,
    )
    entry.idle = not missing and not trimmed.asks_now()
    return trimmed
