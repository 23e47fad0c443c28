"""A job of several combinations checked as a whole: all its points, its highest load."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping

from launcher.estimate import estimate, limit_enough
from launcher.schema import LaunchConfig
from launcher.sweep.groups import Group, Member
from launcher.validate import Findings, find

TIME_KEYS = ("cluster.time=", "cluster.budgets.point_s=", "workload.request_timeout_s=")
"""Of a joined configuration these would speak of points that nobody asked for."""


def whole(group: Group, told: Mapping[int, tuple[str, ...]]) -> Findings:
    """What holds of the job and of none of its combinations alone (`told`: theirs, by number)."""
    if len(group.members) == 1:
        return Findings((), ())
    known = {text for member in group.members for text in told.get(member.number, ())}
    problems: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for config in _joined(group):
        found = find(config)
        problems |= dict.fromkeys(found.problems)
        warnings |= dict.fromkeys(text for text in found.warnings if not text.startswith(TIME_KEYS))
    made = estimate(group.plan)
    warnings |= dict.fromkeys(limit_enough(group.plan.config, made) if made else ())
    fresh = [text for text in warnings if text not in known]
    if group.plan.config.check == "strict":
        problems |= {f"{text} (a warning; check=strict stops at it)": None for text in fresh}
    return Findings(tuple(problems), tuple(fresh))


def _joined(group: Group) -> Iterator[LaunchConfig]:
    """The job's configuration, and that of each workload with all its own concurrencies."""
    config = group.plan.config
    yield config
    together: dict[str, list[Member]] = {}
    for member in group.members:
        load = dataclasses.asdict(member.config.workload) | {"concurrency": None}
        together.setdefault(json.dumps(load, sort_keys=True), []).append(member)
    for members in together.values():
        if 1 < len(members) < len(group.members):
            values = [c for member in members for c in member.config.workload.concurrency]
            workload = dataclasses.replace(
                members[0].config.workload, concurrency=list(dict.fromkeys(values))
            )
            yield dataclasses.replace(config, workload=workload)
