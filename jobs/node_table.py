"""The preflight's verdict: one table of what failed where, and preflight.json. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobs.node_compare import Problem
from jobs.node_report import Answer, Finding
from jobs.preflight.finding import FAILED, WARNED

SHOWN_NODES = 6


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All nodes' answers with everything that was found in them."""

    answers: Sequence[Answer]
    problems: Sequence[Problem]
    took_s: float
    budget_s: float

    def of_state(self, state: str) -> list[Problem]:
        """Problems that failed, or that only warn."""
        return [problem for problem in self.problems if problem.state == state]

    @property
    def bad_nodes(self) -> dict[str, str]:
        """Nodes that are not fit, each with all its reasons."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for problem in self.of_state(FAILED):
            for label in problem.nodes:
                reasons[label].append(f"{problem.check}: {problem.value}")
        return {label: "; ".join(told) for label, told in reasons.items()}

    @property
    def guesses(self) -> list[str]:
        """Checks in which nodes disagree and none of them is plainly the odd one."""
        return sorted({problem.check for problem in self.of_state(FAILED) if not problem.blamed})


def own_problems(answers: Iterable[Answer]) -> list[Problem]:
    """What nodes say of themselves, and nodes that say nothing, equal findings together."""
    grouped: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for answer in answers:
        for finding in findings(answer):
            if finding.state in (FAILED, WARNED):
                key = (finding.check, finding.state, finding.value, finding.wanted)
                grouped[key].append(answer.label)
    return [
        Problem(check=check, state=state, nodes=tuple(labels), value=value, wanted=wanted)
        for (check, state, value, wanted), labels in grouped.items()
    ]


def findings(answer: Answer) -> list[Finding]:
    """Everything found on a node and in its container; a missing answer is a finding too."""
    own = list(answer.report.found) if answer.report else []
    if answer.trouble:
        own.append(
            Finding(check="answer", state=FAILED, value=answer.trouble, wanted="a report in time")
        )
    return [*own, *answer.within]


def table(problems: Sequence[Problem]) -> list[str]:
    """One line per problem: check, how many nodes, which, what was found, what was wanted."""
    rows = [
        (problem.check, _count(problem.nodes), some(problem.nodes), problem.value, problem.wanted)
        for problem in sorted(problems, key=lambda p: (p.check, -len(p.nodes), p.nodes))
    ]
    rows = [("check", "nodes", "which", "found", "wanted"), *rows]
    widths = [min(60, max(len(row[column]) for row in rows)) for column in range(4)]
    return [
        "  ".join([*(row[at].ljust(widths[at]) for at in range(4)), row[4]]).rstrip()
        for row in rows
    ]


def headline(verdict: Verdict) -> str:
    """`3 of 18 nodes are not fit: ports: 2 nodes, engine: 1 node (2.1 s)`."""
    by_check: dict[str, set[str]] = defaultdict(set)
    for problem in verdict.of_state(FAILED):
        by_check[problem.check] |= set(problem.nodes)
    parts = ", ".join(f"{check}: {_nodes(len(nodes))}" for check, nodes in sorted(by_check.items()))
    count, total = len(verdict.bad_nodes), len(verdict.answers)
    return f"{count} of {_nodes(total)} not fit: {parts} (after {verdict.took_s:.1f} s)"


def some(labels: Sequence[str]) -> str:
    """Names, the first few of many."""
    more = f" and {len(labels) - SHOWN_NODES} more" if len(labels) > SHOWN_NODES else ""
    return ", ".join(labels[:SHOWN_NODES]) + more


def _count(labels: Sequence[str]) -> str:
    return str(len(labels))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def record(verdict: Verdict, began: str) -> dict[str, Any]:
    """preflight.json: node by check, then the same as the table has it."""
    return {
        "schema": 1,
        "began": began,
        "took_s": round(verdict.took_s, 3),
        "budget_s": verdict.budget_s,
        "fit": not verdict.bad_nodes,
        "problems": [asdict(problem) for problem in verdict.problems],
        "nodes": {answer.label: _node(answer) for answer in verdict.answers},
    }


def _node(answer: Answer) -> dict[str, Any]:
    checks: dict[str, Mapping[str, str]] = {}
    for finding in findings(answer):
        told = {"state": finding.state, "value": finding.value, "wanted": finding.wanted}
        before = checks.get(finding.check)
        if before is None or before["state"] != FAILED:
            checks[finding.check] = told
    return {
        "name": answer.node.name,
        "address": answer.node.address,
        "answered_after_s": round(answer.back_at - answer.asked_at, 3),
        "checks": checks,
        "engine": answer.engine,
        "facts": answer.facts,
    }
