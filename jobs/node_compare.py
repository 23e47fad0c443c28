"""What only shows when all nodes' answers lie side by side. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.node_report import Answer
from jobs.preflight.finding import FAILED, WARNED
from jobs.run_spec import Plan

RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong on some nodes. `blamed` is False where the nodes only disagree, so that
    leaving these out would be a guess."""

    check: str
    state: str
    nodes: tuple[str, ...]
    value: str
    wanted: str
    blamed: bool = True


def compare(answers: Sequence[Answer], plan: Plan, release: str) -> Iterator[Problem]:
    """Every problem that no node can see alone."""
    told = [answer for answer in answers if answer.report]
    yield from clocks(told, plan.preflight.max_clock_skew_s)
    drivers = {a.label: str(a.facts["driver"]) for a in told if a.facts.get("driver")}
    yield from unequal("driver", drivers)
    yield from engines({a.label: a.engine for a in told if a.engine}, release)
    files = {a.label: a.facts["model_files"] for a in told if _whole_model(a)}
    yield from model_files(files, plan.preflight.model_files)
    yield from domains(told, plan)


def _whole_model(answer: Answer) -> bool:
    """Whether the node itself has nothing against its model files: else it has said so already."""
    found = answer.report.found if answer.report else []
    spoilt = any(f.check == "model files" and f.state == FAILED for f in found)
    return bool(answer.facts.get("model_files")) and not spoilt


def clocks(answers: Iterable[Answer], most_s: float) -> Iterator[Problem]:
    """Clocks that are surely off: the node's times lie outside those of asking and hearing."""
    for answer in answers:
        begin, end = answer.report.clock if answer.report else (0.0, 0.0)
        ahead, behind = end - answer.back_at, answer.asked_at - begin
        skew, word = (ahead, "ahead") if ahead > behind else (behind, "behind")
        if skew > most_s:
            yield Problem(
                check="clock",
                state=FAILED,
                nodes=(answer.label,),
                value=f"{skew:.1f} s or more {word} of the driver's",
                wanted=f"within {most_s:g} s (cluster.preflight.max_clock_skew_s)",
            )


def unequal(check: str, values: Mapping[str, str], state: str = FAILED) -> Iterator[Problem]:
    """Nodes that differ from most; where no value has most, all of them without blame."""
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return
    shown = ", ".join(f"{value} on {count} nodes" for value, count in counts)
    if counts[0][1] == counts[1][1]:
        yield Problem(
            check=check,
            state=state,
            nodes=tuple(values),
            value=shown,
            wanted="the same on all nodes",
            blamed=False,
        )
        return
    usual = counts[0][0]
    by_value = defaultdict(list)
    for label, value in values.items():
        if value != usual:
            by_value[value].append(label)
    for value, labels in by_value.items():
        yield Problem(
            check=check,
            state=state,
            nodes=tuple(labels),
            value=value,
            wanted=f"{usual}, as on {counts[0][1]} nodes",
        )


def engines(installed: Mapping[str, Mapping[str, str]], release: str) -> Iterator[Problem]:
    """vllm must be engine.release; all other packages equal on all nodes.

    A local build's suffix (+cpu, +cu130) is the same release; rc and dev builds are named.
    """
    others: set[str] = set()
    right: dict[str, str] = {}
    wanted = RELEASE.match(release)
    for label, packages in installed.items():
        others |= set(packages) - {"vllm"}
        found = packages.get("vllm", "not installed")
        same = RELEASE.match(found)
        if same is None or wanted is None or same[0] != wanted[0]:
            yield _engine(label, FAILED, found, release)
            continue
        right[label] = found
        if found.partition("+")[0] != release.partition("+")[0]:
            yield _engine(label, WARNED, found, release)
    yield from unequal("engine", right)
    for name in sorted(others):
        versions = {label: f"{name} {p.get(name, 'none')}" for label, p in installed.items()}
        yield from unequal("engine packages", versions)


def _engine(label: str, state: str, found: str, release: str) -> Problem:
    return Problem(
        check="engine",
        state=state,
        nodes=(label,),
        value=f"vllm {found}",
        wanted=f"{release} (engine.release)",
    )


def model_files(
    sizes: Mapping[str, Mapping[str, int]], expected: Mapping[str, int]
) -> Iterator[Problem]:
    """Files of another size than where the run was submitted, or than on most nodes."""
    if not expected:
        names = sorted({name for files in sizes.values() for name in files})
        for name in names:
            shown = {label: f"{name}: {_bytes(files.get(name))}" for label, files in sizes.items()}
            yield from unequal("model files", shown)
        return
    for label, files in sizes.items():
        off = [name for name, size in expected.items() if files.get(name) != size]
        if off:
            yield Problem(
                check="model files",
                state=FAILED,
                nodes=(label,),
                value=_listed(f"{name}: {_bytes(files.get(name))}" for name in off),
                wanted=_listed(_bytes(expected[name]) for name in off) + ", as at submission",
            )


def _bytes(size: int | None) -> str:
    return "missing" if size is None else f"{size:,} bytes"


def _listed(texts: Iterable[str], most: int = 3) -> str:
    every = list(texts)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return "; ".join(every[:most]) + more


def domains(answers: Sequence[Answer], plan: Plan) -> Iterator[Problem]:
    """Nodes that must share an NVLink domain and do not, by the fabric and by Slurm's blocks.

    Nodes of a segment must; without segments the nodes of an endpoint should.
    """
    by_index = {answer.node.index: answer for answer in answers}
    for group, state in _groups(plan):
        here = [by_index[index] for index in group if index in by_index]
        fabric = {a.label: d[0] for a in here if len(d := a.facts.get("nvlink_domains", [])) == 1}
        yield from unequal("NVLink domain", fabric, state)
        blocks = {a.label: block for a in here if (block := block_of(a.facts))}
        yield from unequal("Slurm block", blocks, state)


def _groups(plan: Plan) -> list[tuple[list[int], str]]:
    if plan.segment:
        starts = range(0, plan.nodes, plan.segment)
        return [(list(range(at, min(at + plan.segment, plan.nodes))), FAILED) for at in starts]
    endpoints: dict[tuple[str, int], list[int]] = defaultdict(list)
    for worker in plan.workers:
        endpoints[worker.role, worker.endpoint].append(worker.node)
    return [(nodes, WARNED) for nodes in endpoints.values()]


def block_of(facts: Mapping[str, Any]) -> str | None:
    """The block in SLURM_TOPOLOGY_ADDR ("rack1.node3" with pattern "block.node"); None elsewhere:
    a switch of topology/tree says nothing about NVLink."""
    pattern = str(facts.get("slurm_topology_addr_pattern", "")).split(".")
    address = str(facts.get("slurm_topology_addr", "")).split(".", len(pattern) - 1)
    if "block" not in pattern or len(address) != len(pattern):
        return None
    return address[pattern.index("block")]
