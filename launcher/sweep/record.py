"""sweep.json: which combinations a sweep had, which run measures each, and what came of asking."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.plain_text import counted
from launcher.schema import SweepConfig
from launcher.sweep.groups import Group

NAME = "sweep.json"


@dataclass(slots=True)
class Asked:
    """One group of a sweep and what came of it."""

    group: Group
    name: str
    run_dir: Path | None = None
    """None where nothing of it was left to be run."""
    job_id: str | None = None
    error: str | None = None
    after: str | None = None
    """The dependency that holds the job back."""
    reused: list[dict[str, Any]] = field(default_factory=list)
    """Points that were measured before, each with its origin."""
    accuracy_from: dict[str, Any] | None = None
    planned: list[str] = field(default_factory=list)
    """Names of the points that the job itself measures."""
    idle: bool = False
    """Whether nothing is left that a job would measure."""
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """planned, submitted, refused, or reused (nothing left to be run)."""
        if self.error is not None:
            return "refused"
        if self.idle:
            return "reused"
        return "submitted" if self.job_id else "planned"


@dataclass(slots=True)
class SweepRecord:
    """A sweep as its directory tells it."""

    path: Path
    words: Sequence[str]
    axes: Sequence[str]
    combinations: Sequence[Sequence[str]]
    settings: SweepConfig
    skipped: Mapping[int, Sequence[str]]
    asked: list[Asked]
    table_job: str | None = None
    table_error: str | None = None
    created: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def document(self) -> dict[str, Any]:
        """As JSON; docs/sweep.md describes it."""
        return {
            "schema": 1,
            "sweep_id": self.path.name,
            "created": self.created,
            "command": shlex.join(["python", "-m", "launcher", *self.words]),
            "axes": list(self.axes),
            "settings": {
                "zip": [list(row) for row in self.settings.zip],
                "order": self.settings.order,
                "max_jobs": self.settings.max_jobs,
                "skip_invalid": self.settings.skip_invalid,
                "rerun": self.settings.rerun,
            },
            "combinations": list(self._combinations()),
            "runs": [self._run(asked) for asked in self.asked],
            "table": {"job_id": self.table_job, "error": self.table_error},
        }

    def _combinations(self) -> Iterator[dict[str, Any]]:
        homes = {
            member.number: (place, asked)
            for place, asked in enumerate(self.asked)
            for member in asked.group.members
        }
        for number, overrides in enumerate(self.combinations):
            entry: dict[str, Any] = {"overrides": list(overrides)}
            if number in self.skipped:
                yield entry | {"state": "skipped", "problems": list(self.skipped[number])}
                continue
            place, asked = homes[number]
            points = asked.group.plan.points
            names = [points[index].name for index in asked.group.points_of[number]]
            yield entry | {"state": asked.state, "run": place, "points": names}

    def _run(self, asked: Asked) -> dict[str, Any]:
        group = asked.group
        return {
            "directory": asked.run_dir.name if asked.run_dir else None,
            "name": asked.name,
            "state": asked.state,
            "job_id": asked.job_id,
            "error": asked.error,
            "dependency": asked.after,
            "nodes": group.placement.nodes,
            "labels": dict(group.labels),
            "combinations": [member.number for member in group.members],
            "points": asked.planned,
            "reused": asked.reused,
            "accuracy": group.plan.config.accuracy.dataset,
            "accuracy_from": asked.accuracy_from,
        }

    def write(self) -> None:
        """Whole or not at all."""
        aside = self.path / f".{NAME}.{os.getpid()}.tmp"
        aside.write_text(json.dumps(self.document(), indent=1) + "\n", encoding="utf-8")
        aside.replace(self.path / NAME)


def short(overrides: Sequence[str], axes: Sequence[str]) -> str:
    """The part of a combination that is its own: the overrides of the axes."""
    own = [word for word in overrides if word.split("=", 1)[0].lstrip("+~") in axes]
    return " ".join(own or overrides)


def summary(record: SweepRecord) -> str:
    """What was submitted, refused, skipped and reused, for people."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: SweepRecord) -> Iterator[str]:
    jobs = [asked for asked in record.asked if asked.state != "reused"]
    points = sum(len(asked.planned) for asked in jobs)
    reused = sum(len(asked.reused) for asked in record.asked)
    parts = [counted(len(record.combinations), "combination")]
    parts += [f"{len(record.skipped)} skipped"] if record.skipped else []
    parts += [f"{counted(len(jobs), 'job')} with {counted(points, 'point')}"]
    parts += [f"{counted(reused, 'point')} reused"] if reused else []
    yield f"sweep: {', '.join(parts)}"
    width = max((len(_id(asked)) for asked in record.asked), default=6)
    for asked in record.asked:
        what, nodes = f"{asked.name}: {_points(asked)}", asked.group.placement.nodes
        yield f"  {_id(asked):<{width}}  {nodes:>3} {'node ' if nodes == 1 else 'nodes'}  {what}"
        for member in asked.group.members:
            yield f"  {'':<{width}}    {short(member.overrides, record.axes)}"
        if asked.error:
            first, *rest = asked.error.splitlines()
            yield f"  {'':<{width}}    error: {first}"
            yield from (f"  {'':<{width}}    {line}" for line in rest)
    for number, problems in record.skipped.items():
        yield f"  skipped: {short(record.combinations[number], record.axes)}"
        yield from (f"    {problem}" for problem in problems)


def _id(asked: Asked) -> str:
    if asked.error is not None:
        return "ERROR"
    return "reused" if asked.state == "reused" else (asked.job_id or "-")


def _points(asked: Asked) -> str:
    names = asked.planned
    told = counted(len(names), "point") + (f" ({', '.join(names)})" if 0 < len(names) < 10 else "")
    if asked.reused:
        told += f", {len(asked.reused)} reused"
    dataset = asked.group.plan.config.accuracy.dataset
    if dataset != "none":
        told += f", {dataset}" + (" reused" if asked.accuracy_from else "")
    return told
