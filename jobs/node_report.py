"""What a node answered to the preflight, and what may be wrong with an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from jobs.allocation import Node
from jobs.preflight.__main__ import BEGINS, REPORT
from jobs.processes import CODE_DIR
from jobs.records import RecordError, from_json

NO_CODE = "No module named 'jobs'"
"""Python's word on a node that does not see the folder with the code."""
CLOSING = "Exited with exit code"
"""srun's remark on a step that ended by itself: why it did stands before."""


@dataclass(kw_only=True)
class Finding:
    """One check on one node; `state` is ok, failed, warned or skipped."""

    check: str
    state: str
    value: str
    wanted: str


@dataclass(kw_only=True)
class NodeReport:
    """The line that `python -m jobs.preflight` prints. `clock` is the node's own: begin, end."""

    node: str
    found: list[Finding]
    facts: dict[str, Any]
    clock: list[float]


@dataclass(kw_only=True)
class Answer:
    """One node's answer; without a report `trouble` says why. Times are the driver's clock."""

    node: Node
    label: str
    asked_at: float
    back_at: float
    report: NodeReport | None = None
    trouble: str = ""
    within: list[Finding] = field(default_factory=list)
    """What was found inside the container."""
    engine: dict[str, str] = field(default_factory=dict)
    """Versions of the engine's packages, as the node's engine Python tells them."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the node is; empty without a report."""
        return self.report.facts if self.report else {}


def read_report(text: str, label: str) -> NodeReport | str:
    """The report in a step's output, or in words what came instead.

    srun's own remarks may stand around it; a report of another node is no answer.
    """
    lines = [line for line in text.splitlines() if line.startswith(REPORT)]
    if not lines:
        if NO_CODE in text:
            return (
                f"no report: the launcher's code is not in {CODE_DIR} there; a node-local folder "
                "under the same path, or a file system that is not mounted"
            )
        return f"no report; last said: {last_said(text)}"
    try:
        report = from_json(NodeReport, json.loads(lines[-1].removeprefix(REPORT)), "report")
    except (ValueError, RecordError) as error:
        return f"garbage instead of a report ({error}): {lines[-1][:120]!r}"
    if report.node != label or len(report.clock) != 2:
        return f"a report of {report.node!r} instead of its own"
    return report


def last_said(text: str) -> str:
    """The last line of an output, where it hangs or why it ended."""
    said = [line for line in text.splitlines() if line.strip()]
    lines = [line for line in said if CLOSING not in line] or said
    if not lines:
        return "nothing at all"
    last = lines[-1].strip()[:300]
    return f"{last!r}" if not last.startswith(BEGINS) else f"it was {last}"
