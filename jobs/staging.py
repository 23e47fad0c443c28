"""The model on every node's own disk before a worker starts: one copy a node, all at once."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from jobs.allocation import Allocation, Node
from jobs.errors import JobError
from jobs.events import Journal
from jobs.node_questions import host_line, with_spec
from jobs.node_report import last_said
from jobs.run_spec import Plan, StagePlan, Step
from jobs.stage.__main__ import PROGRESS, REPORT
from jobs.supervisor import Supervisor, Watched

LOOK_S = 1.0
TOLD_S = 5.0
GB = 1e9


class StagingError(JobError):
    """The model is not whole on every node; all nodes that failed, in one text."""


@dataclass(slots=True)
class _Copy:
    """One node's copy: its step, and how far it is."""

    node: Node
    watched: Watched
    bytes: int = 0
    total: int = 0
    waits: str = ""
    report: dict[str, Any] | None = None

    def read(self) -> None:
        """Takes in what the step has said so far."""
        running = self.watched.running
        with running.log.open("rb") as stream:
            stream.seek(running.offset)
            text = stream.read().decode("utf-8", "replace")
        for line in text.splitlines():
            if line.startswith(PROGRESS):
                self._take(_object(line.removeprefix(PROGRESS)))
            elif line.startswith(REPORT):
                self.report = _object(line.removeprefix(REPORT))

    def _take(self, told: dict[str, Any]) -> None:
        self.waits = str(told.get("waits", ""))
        self.bytes, self.total = int(told.get("bytes", 0)), int(told.get("total", 0))

    def trouble(self) -> str | None:
        """Why the node has no whole copy; None when it has one."""
        if self.report is None:
            running = self.watched.running
            with running.log.open("rb") as stream:
                stream.seek(running.offset)
                said = last_said(stream.read().decode("utf-8", "replace"))
            return f"no report; last said: {said}"
        return str(self.report["why"]) if self.report.get("state") == "failed" else None


async def stage_model(
    plan: Plan, stage: StagePlan, allocation: Allocation, supervisor: Supervisor, journal: Journal
) -> None:
    """Whole copies on all nodes; StagingError names every node that has none."""
    began = time.monotonic()
    nodes = {node.name: node for node in reversed(allocation.nodes)}
    copies = [
        await _begin(node, stage, plan, allocation, supervisor)
        for node in reversed(list(nodes.values()))
    ]
    try:
        async with asyncio.timeout(plan.budgets.stage_s):
            await _watch(copies, journal, began)
    except TimeoutError:
        for copy in copies:
            copy.read()
    failed = {copy.node.name: text for copy in copies if (text := copy.trouble()) is not None}
    if failed:
        late = f" within {plan.budgets.stage_s:g} s (cluster.budgets.stage_s)"
        rows = [f"{name}: {text}" for name, text in failed.items()]
        head = f"{len(failed)} of {len(copies)} nodes have no whole copy of {stage.source}"
        ended = time.monotonic() - began < plan.budgets.stage_s
        raise StagingError("staging: " + "\n  ".join([head + ("" if ended else late), *rows]))
    _tell_end(copies, journal, time.monotonic() - began)


async def _begin(
    node: Node, stage: StagePlan, plan: Plan, allocation: Allocation, supervisor: Supervisor
) -> _Copy:
    name = f"stage{node.index}"
    argv, command = host_line(name, "jobs.stage", node, plan, allocation)
    step = Step(name=name, node=node.index, argv=argv, env={}, command=command, log=f"{name}.log")
    run_id = supervisor.around.tokens["run_id"]
    watched = await supervisor.start(with_spec(step, stage_spec(stage, node.name, run_id)), "stage")
    watched.should_live = False
    return _Copy(node, watched)


def stage_spec(stage: StagePlan, node: str, run_id: str) -> dict[str, Any]:
    """What a node is told: what to copy, where to, and what to compare."""
    return {
        "node": node,
        "run_id": run_id,
        "source": stage.source,
        "dir": stage.dir,
        "name": stage.name,
        "verify": stage.verify,
        "files_at_once": stage.files_at_once,
        "keep": stage.keep,
        "min_free_disk_gb": stage.min_free_disk_gb,
    }


async def _watch(copies: list[_Copy], journal: Journal, began: float) -> None:
    """Until every step has ended, telling how far the slowest is."""
    ends = [asyncio.ensure_future(copy.watched.wait()) for copy in copies]
    told = time.monotonic()
    while True:
        _, living = await asyncio.wait(ends, timeout=LOOK_S)
        for copy in copies:
            copy.read()
        if not living:
            return
        if time.monotonic() - told >= TOLD_S:
            told = time.monotonic()
            text, facts = _so_far([copy for copy in copies if not copy.report], told - began)
            journal.note("staging", text, **facts)


def _so_far(copies: list[_Copy], after_s: float) -> tuple[str, dict[str, Any]]:
    """The slowest node's words."""
    slowest = min(copies, key=lambda copy: copy.bytes)
    if slowest.waits:
        return f"{slowest.node.name}: {slowest.waits}", {"node": slowest.node.name}
    done, total = slowest.bytes / GB, slowest.total / GB
    rate = done / after_s
    left = f", about {(total - done) / rate:.0f} s left" if rate > 0 and total else ""
    text = f"{done:.1f} of {total:.1f} GB on the slowest of {len(copies)} nodes"
    text += f" ({slowest.node.name}), {rate:.2f} GB/s{left}"
    facts = {"node": slowest.node.name, "bytes": slowest.bytes, "total": slowest.total}
    return text, facts


def _tell_end(copies: list[_Copy], journal: Journal, took_s: float) -> None:
    reports = [copy.report or {} for copy in copies]
    copied = sum(report.get("state") == "copied" for report in reports)
    size = max(int(report.get("bytes", 0)) for report in reports)
    text = (
        f"{size / GB:.1f} GB in {reports[0].get('files')} files on {len(copies)} nodes after "
        f"{took_s:.1f} s: copied to {copied}, there already on {len(copies) - copied}"
    )
    told = {copy.node.name: copy.report for copy in copies}
    journal.note("staged", text, copied=copied, bytes=size, took_s=round(took_s, 3), nodes=told)
    for copy in copies:
        if gone := (copy.report or {}).get("removed"):
            journal.note("unstaged", f"{copy.node.name}: removed {', '.join(gone)}")


def _object(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:  # a line that is being written
        return {}
    return read if isinstance(read, dict) else {}
