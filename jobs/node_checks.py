"""Preflight of all nodes in parallel, and one verdict over their reports."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from typing import Any
from urllib.parse import urlsplit

from jobs.allocation import Allocation, Node
from jobs.errors import JobError
from jobs.events import Journal
from jobs.processes import CODE_DIR
from jobs.run_spec import Listener, Plan, Step, Worker
from jobs.store import write_json
from jobs.supervisor import Supervisor
from jobs.tokens import fill


async def check_nodes(
    plan: Plan, allocation: Allocation, supervisor: Supervisor, journal: Journal
) -> list[dict[str, Any]]:
    """Every node's report; JobError with all problems of all nodes."""
    try:
        async with asyncio.timeout(plan.budgets.preflight_s):
            found = await asyncio.gather(
                *(_check(node, plan, allocation, supervisor) for node in allocation.nodes)
            )
    except TimeoutError:
        folder = supervisor.around.run_dir.preflight
        silent = [n.name for n in allocation.nodes if not (folder / f"node{n.index}.json").exists()]
        raise JobError(
            f"preflight: no report within {plan.budgets.preflight_s:.0f} s from "
            f"{', '.join(silent)}; look at logs/preflight<i>.log"
        ) from None
    reports = [report for report in found if report]
    problems = [f"{r['node']}: {problem}" for r in reports for problem in r["problems"]]
    if plan.needs_gpu:
        problems += domain_problems(reports)
    if problems:
        raise JobError("preflight found:\n  " + "\n  ".join(problems))
    for report in reports:
        _tell(report, plan, journal)
    return reports


def domain_problems(reports: list[dict[str, Any]]) -> list[str]:
    """Nodes of different NVLink domains, named."""
    members: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        for domain in report["facts"].get("nvlink_domains", []):
            members[domain].append(report["node"])
    if len(members) < 2:
        return []
    shown = "; ".join(f"{domain}: {', '.join(nodes)}" for domain, nodes in members.items())
    return [f"the nodes lie in {len(members)} NVLink domains ({shown}): ask for one --segment"]


def listeners_on(node: Node, plan: Plan, tokens: dict[str, str]) -> list[dict[str, Any]]:
    """Ports the plan's processes will bind on a node, each with its owner; each port once."""
    found: list[dict[str, Any]] = []
    if plan.router and plan.router.node == node.index:
        found += _listeners(plan.router.name, plan.router.url, plan.router.listeners, tokens)
    for worker in plan.workers:
        if worker.node == node.index:
            found += _listeners(worker.name, worker.url, worker.listeners, tokens)
            rpc = worker.ports.get("rpc")
            if worker.leader and worker.dp > 1 and isinstance(rpc, int):
                found.append({"owner": worker.name, "what": "data parallel rpc", "port": rpc})
    return list({entry["port"]: entry for entry in reversed(found)}.values())[::-1]


def _listeners(
    owner: str, url: str | None, listeners: list[Listener], tokens: dict[str, str]
) -> list[dict[str, Any]]:
    port = urlsplit(fill(url, tokens)).port if url else None
    http = [{"owner": owner, "what": "http", "port": port}] if port else []
    return [*http, *({"owner": owner, "what": it.what, "port": it.port} for it in listeners)]


async def _check(
    node: Node, plan: Plan, allocation: Allocation, supervisor: Supervisor
) -> dict[str, Any] | None:
    around = supervisor.around
    tokens = dict(around.tokens)
    here: list[Worker] = [worker for worker in plan.workers if worker.node == node.index]
    spec = {
        "name": node.name,
        "address": node.address,
        "run_dir": str(around.run_dir.path),
        "listeners": listeners_on(node, plan, tokens),
        "paths": [fill(path, tokens) for path in plan.preflight.paths],
        "executables": [fill(path, tokens) for path in plan.preflight.executables],
        "min_free_disk_gb": plan.preflight.min_free_disk_gb,
        "needs_gpu": plan.needs_gpu,
        "needs_imex": plan.needs_gpu and plan.nodes > 1,
        "gpus": len({gpu for worker in here for gpu in worker.gpus}),
    }
    spec_path = around.run_dir.preflight / f"node{node.index}.spec.json"
    report_path = around.run_dir.preflight / f"node{node.index}.json"
    report_path.unlink(missing_ok=True)
    write_json(spec_path, spec)
    argv = [sys.executable, "-m", "jobs.preflight", str(spec_path), str(report_path)]
    name = f"preflight{node.index}"
    line = [*_srun(name, node, plan, allocation), *argv]
    step = Step(name=name, node=node.index, argv=argv, env={}, command=line, log=f"{name}.log")
    watched = await supervisor.start(step, "preflight")
    watched.should_live = False
    code = await watched.wait()
    if code or not report_path.exists():
        raise JobError(supervisor.describe(watched, code))
    report: dict[str, Any] = json.loads(report_path.read_text(encoding="utf-8"))
    return report


def _srun(name: str, node: Node, plan: Plan, allocation: Allocation) -> list[str]:
    """srun pinned to the node with all its CPUs and GPUs, so that the report is about the node."""
    if plan.executor == "local":
        return []
    cpus = allocation.cpus[node.index] if allocation.cpus else 1
    line = ["srun", f"--job-name={name}", "--nodes=1", "--ntasks=1", f"--nodelist={node.name}"]
    line += ["--overlap", f"--cpus-per-task={cpus}", "--cpu-bind=none", "--mem=0"]
    if plan.needs_gpu:
        line.append(f"--gpus-per-node={plan.gpus_per_node}")
    return [*line, "--export=ALL", "--input=none", "env", f"PYTHONPATH={CODE_DIR}"]


def _tell(report: dict[str, Any], plan: Plan, journal: Journal) -> None:
    facts = report["facts"]
    parts = [f"{facts['cpus']} CPUs"]
    if plan.needs_gpu:
        parts.append(f"{facts['gpus']} GPUs, driver {facts['driver']}")
        parts.append("NVLink domain " + (", ".join(facts["nvlink_domains"]) or "not reported"))
    journal.note(
        "node", f"{report['node']} is fit: {', '.join(parts)}", node=report["node"], **facts
    )
    if plan.needs_gpu and facts["cpus"] < facts["gpus"]:
        journal.warn(
            "few_cpus",
            f"{report['node']} grants {facts['cpus']} CPUs for {facts['gpus']} GPUs: "
            "results will be CPU bound; ask for --exclusive or more --cpus-per-task",
        )
