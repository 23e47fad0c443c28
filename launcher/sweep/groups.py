"""Combinations that share a deployment, put together: one job, one model load, all their points."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from launcher.document import plain
from launcher.estimate import estimate
from launcher.placement import Placement, place
from launcher.plan import LaunchPlan, Point, build_plan, point_name
from launcher.schema import LaunchConfig

LOAD_KEYS = ("workload", "accuracy", "sweep", "dry_run", "wait", "check")
"""Parts of the configuration that change what is asked, not what serves."""
LOAD_LABELS = ("workload", "accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One checked combination of a sweep; `number` is its place in the sweep, from 0."""

    number: int
    config: LaunchConfig
    labels: Mapping[str, str]
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Combinations of one deployment. `points_of` tells each combination's points by index."""

    members: tuple[Member, ...]
    plan: LaunchPlan
    placement: Placement
    labels: Mapping[str, str]
    points_of: Mapping[int, tuple[int, ...]]

    def cost(self) -> tuple[float, float]:
        """(nodes x estimated seconds, nodes x tokens); the first is 0 where nothing is known."""
        made = estimate(self.plan)
        tokens = sum(
            (sum(point.input_range) + sum(point.output_range)) / 2 * point.num_prompts
            for point in self.plan.points
        )
        nodes = self.placement.nodes
        return nodes * made.total_s if made else 0.0, nodes * tokens


def grouped(members: Iterable[Member], order: str) -> list[Group]:
    """The groups of a sweep in the order in which they are to run."""
    sets: dict[str, list[Member]] = {}
    for member in members:
        sets.setdefault(deployment_key(member), []).append(member)
    groups = [_group(part) for together in sets.values() for part in _by_accuracy(together)]
    if order == "cheapest":
        known = all(group.cost()[0] for group in groups)
        groups.sort(key=lambda group: group.cost()[0 if known else 1])
    return groups


def deployment_key(member: Member) -> str:
    """Equal for combinations that one deployment can serve.

    Of the configuration, everything but the load: flags that follow from the load (the capture
    rule) are worked out for the whole group. A name given to a combination is its run's.
    """
    kept = {key: value for key, value in vars(member.config).items() if key not in LOAD_KEYS}
    labels = {key: text for key, text in member.labels.items() if key not in LOAD_LABELS}
    return json.dumps([kept, labels], sort_keys=True, default=_content)


def _content(value: object) -> Any:
    return vars(value) if is_dataclass(value) else str(value)


def _by_accuracy(members: Sequence[Member]) -> Iterator[list[Member]]:
    """A run asks one set of questions: those without questions go with the first that has some."""
    asked: dict[str, list[Member]] = {}
    silent = [member for member in members if member.config.accuracy.dataset == "none"]
    for member in members:
        if member.config.accuracy.dataset != "none":
            key = json.dumps(plain(member.config.accuracy), sort_keys=True)
            asked.setdefault(key, []).append(member)
    if not asked:
        yield silent
        return
    first, *others = asked.values()
    yield sorted([*first, *silent], key=lambda member: member.number)
    yield from others


def _group(members: Sequence[Member]) -> Group:
    plans = {member.number: build_plan(member.config) for member in members}
    several = len({_workload(member) for member in members}) > 1
    chosen: dict[tuple[object, ...], Point] = {}
    for member in members:
        for point in plans[member.number].points:
            label = member.labels["workload"] if several else ""
            chosen.setdefault(point.load(), replace(point, workload=label))
    # As within one workload: every point once, then all of them again.
    ordered = sorted(chosen.items(), key=lambda item: item[1].repeat)
    points = tuple(_named([point for _, point in ordered]))
    places = {load: index for index, (load, _) in enumerate(ordered)}
    asking = [member for member in members if member.config.accuracy.dataset != "none"]
    first = (asking or list(members))[0]
    plan = LaunchPlan(
        config=_joined_config(first.config, points),
        endpoints=plans[first.number].endpoints,
        points=points,
    )
    labels = dict(first.labels) | {
        "workload": _joined(member.labels["workload"] for member in members)
    }
    return Group(
        members=tuple(members),
        plan=plan,
        placement=place(plan),
        labels=labels,
        points_of={
            number: tuple(places[point.load()] for point in made.points)
            for number, made in plans.items()
        },
    )


def _workload(member: Member) -> str:
    """The workload but for its concurrencies."""
    load = plain(member.config.workload) | {"concurrency": None}
    return json.dumps(load, sort_keys=True)


def _joined_config(config: LaunchConfig, points: Sequence[Point]) -> LaunchConfig:
    """The configuration that run.json keeps: with every concurrency of the group."""
    concurrency = list(dict.fromkeys(point.concurrency for point in points))
    return replace(config, workload=replace(config.workload, concurrency=concurrency))


def _named(points: Sequence[Point]) -> Iterator[Point]:
    """Points in their places, each with a seed and a name of its own: workload.seed + index, and
    where workloads of other seeds have taken that, the next one beyond all of theirs."""
    lengths = {(point.isl, point.osl) for point in points}
    names = [point_name(point, len(lengths) > 1) for point in points]
    counts, seen, taken = Counter(names), Counter[str](), set[int]()
    for index, (point, name) in enumerate(zip(points, names, strict=True)):
        seen[name] += 1
        own = f"{name}-{seen[name]}" if counts[name] > 1 else name
        seed = point.seed - point.index + index
        while seed in taken:
            seed += len(points)
        taken.add(seed)
        yield replace(point, index=index, name=own, seed=seed)


def _joined(labels: Iterable[str]) -> str:
    return "+".join(dict.fromkeys(labels))


def describe(group: Group) -> dict[str, Any]:
    """A group for the sweep's record."""
    return {
        "topology": group.labels["topology"],
        "nodes": group.placement.nodes,
        "points": [point.name for point in group.plan.points],
        "accuracy": group.plan.config.accuracy.dataset,
        "combinations": [member.number for member in group.members],
    }
