"""Preflight of all nodes in parallel, and one verdict over their answers."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

from jobs.allocation import Allocation, Node, utc_now
from jobs.errors import JobError
from jobs.events import Journal
from jobs.node_compare import compare
from jobs.node_questions import Round, host_step, label_of, spec_of, with_spec
from jobs.node_report import Answer, Finding, NodeReport, last_said, read_report
from jobs.node_table import Verdict, headline, own_problems, record, some, table
from jobs.preflight.finding import FAILED, WARNED
from jobs.run_spec import RunSpec, Step
from jobs.store import RunDir, write_json, write_text
from jobs.supervisor import Supervisor, Watched

SEEN_WITHIN_S = 2.0
"""How long a node's own file may take to show on the driver's node."""


class UnfitNodesError(JobError):
    """Nodes on which the run would fail."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        rows = table(verdict.of_state(FAILED))
        super().__init__("preflight: " + "\n  ".join([headline(verdict), *rows]))


async def check_nodes(
    run: RunSpec, allocation: Allocation, supervisor: Supervisor, journal: Journal
) -> Verdict:
    """The verdict, written to preflight.json; UnfitNodesError with the table when a node fails."""
    plan, run_dir = run.plan, supervisor.around.run_dir
    began, start = utc_now(), time.monotonic()
    asking = Round(
        plan=plan,
        allocation=allocation,
        supervisor=supervisor,
        token=secrets.token_hex(16),
        until=start + plan.budgets.preflight_s,
    )
    _clear(run_dir)
    write_text(asking.folder / asking.token_file, asking.token)
    answers = await asyncio.gather(*(_ask(node, asking) for node in allocation.nodes))
    await _look_for_files(answers, asking)
    problems = [*own_problems(answers), *compare(answers, plan, run.engine.release)]
    verdict = Verdict(
        answers=answers,
        problems=problems,
        took_s=time.monotonic() - start,
        budget_s=plan.budgets.preflight_s,
    )
    write_json(run_dir.preflight_record, record(verdict, began))
    _tell(verdict, journal)
    if verdict.bad_nodes:
        raise UnfitNodesError(verdict)
    return verdict


def _clear(run_dir: RunDir) -> None:
    """Files of an earlier preflight of the same run."""
    for path in run_dir.preflight.iterdir():
        path.unlink(missing_ok=True)


async def _ask(node: Node, asking: Round) -> Answer:
    """A node's report, and its container's where the engine has one."""
    label = label_of(node, asking.plan)
    asked_at = time.time()
    spec = spec_of(node, asking)
    host, within = await asyncio.gather(
        _report(host_step(node, spec, asking), label, asking),
        _inside(node, spec, label, asking),
    )
    answer = Answer(node=node, label=label, asked_at=asked_at, back_at=time.time())
    if isinstance(host, str):
        answer.trouble = host
    else:
        answer.report = host
        answer.engine = _texts(host.facts.get("engine"))
    if isinstance(within, str):
        found = Finding(check="container", state=FAILED, value=within, wanted="a report in time")
        answer.within = [found]
    elif within:
        answer.engine = _texts(within.facts.get("engine"))
        for finding in within.found:
            finding.check = f"{finding.check} in the container"
        answer.within = within.found
    return answer


def _texts(value: Any) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {str(name): str(text) for name, text in items}


async def _report(step: Step, label: str, asking: Round) -> NodeReport | str:
    """What a step reports; garbage is asked for once more, since srun's remarks can tear a line."""
    said = ""
    for _ in range(2):
        watched = await asking.supervisor.start(step, "preflight")
        watched.should_live = False
        try:
            async with asyncio.timeout(max(0.1, asking.until - time.monotonic())):
                code = await watched.wait()
        except TimeoutError:
            budget = asking.plan.budgets.preflight_s
            return f"no answer within {budget:g} s; last said: {last_said(_output(watched))}"
        report = read_report(_output(watched), label)
        if isinstance(report, NodeReport):
            return report
        said = f"{report} (exit code {code})" if code else report
        if code:
            break
    return said


def _output(watched: Watched) -> str:
    with watched.running.log.open("rb") as stream:
        stream.seek(watched.running.offset)
        return stream.read().decode("utf-8", "replace")


async def _inside(
    node: Node, spec: dict[str, Any], label: str, asking: Round
) -> NodeReport | str | None:
    """The same program in the engine's container; None where there is none."""
    for step in asking.plan.preflight.inside:
        if step.node == node.index:
            return await _report(with_spec(step, {**spec, "inside": True}), label, asking)
    return None


async def _look_for_files(answers: list[Answer], asking: Round) -> None:
    """Each node's own file, as the driver sees it; a missing one is a finding of that node."""
    until = time.monotonic() + SEEN_WITHIN_S
    for answer in answers:
        report = answer.report
        left = report and any(
            f.check == "shared directory" and f.state != FAILED for f in report.found
        )
        if report is None or not left:
            continue
        path = asking.folder / asking.own_file(answer.node)
        while not _holds(path, asking.token) and time.monotonic() < until:
            await asyncio.sleep(0.1)
        if not _holds(path, asking.token):
            report.found = [f for f in report.found if f.check != "shared directory"]
            report.found.append(
                Finding(
                    check="shared directory",
                    state=FAILED,
                    value="what it wrote does not show on the driver's node",
                    wanted=f"the driver's own {asking.folder.parent}",
                )
            )


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except OSError:
        return False


def _tell(verdict: Verdict, journal: Journal) -> None:
    """One line for all nodes, one for each kind of warning, the table when something failed."""
    for problem in verdict.of_state(WARNED):
        journal.warn(
            "node_warning",
            f"{problem.check} on {some(problem.nodes)}: {problem.value}; wanted: {problem.wanted}",
            nodes=list(problem.nodes),
        )
    if verdict.bad_nodes:
        for line in (headline(verdict), *table(verdict.of_state(FAILED))):
            journal.note("unfit", line)
        return
    facts = [answer.facts for answer in verdict.answers]
    parts = [f"{_all(facts, 'cpus')} CPUs"]
    if any("driver" in fact for fact in facts):
        parts.append(f"{_all(facts, 'gpus')} GPUs, driver {_all(facts, 'driver')}")
    engines = {answer.engine.get("vllm") for answer in verdict.answers} - {None}
    parts += [f"vllm {version}" for version in sorted(map(str, engines))]
    count = len(verdict.answers)
    text = f"{count} nodes are fit (after {verdict.took_s:.1f} s): {', '.join(parts)}"
    journal.note("fit", text, took_s=round(verdict.took_s, 3))


def _all(facts: list[dict[str, Any]], name: str) -> str:
    return "/".join(sorted({str(fact.get(name)) for fact in facts}))
