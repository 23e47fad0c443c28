"""What each node is asked in the preflight, and the step that asks it."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jobs.allocation import Allocation, Node
from jobs.processes import CODE_DIR
from jobs.run_spec import Listener, Plan, Step, Worker
from jobs.supervisor import Supervisor
from jobs.tokens import fill

SPARE_FILES = 512
"""Open files that a server or client has besides its streams."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One preflight: what all its questions have in common."""

    plan: Plan
    allocation: Allocation
    supervisor: Supervisor
    token: str
    until: float

    @property
    def folder(self) -> Path:
        """Where driver and nodes leave files for each other."""
        return self.supervisor.around.run_dir.preflight

    @property
    def token_file(self) -> str:
        """A name that no node can have looked up before."""
        return f"driver-{self.token[:12]}"

    def own_file(self, node: Node) -> str:
        """What a node leaves for the driver."""
        return f"node{node.index}-{self.token[:12]}"


def with_spec(step: Step, spec: dict[str, Any]) -> Step:
    """The step with its question as the last word."""
    packed = base64.b64encode(json.dumps(spec).encode()).decode()
    return Step(
        name=step.name,
        node=step.node,
        argv=[*step.argv, packed],
        env=step.env,
        command=[*step.command, packed],
        log=step.log,
    )


def host_step(node: Node, spec: dict[str, Any], asking: Round) -> Step:
    """The step that looks at the node itself, outside any container."""
    name = f"preflight{node.index}"
    argv, line = host_line(name, "jobs.preflight", node, asking.plan, asking.allocation)
    step = Step(name=name, node=node.index, argv=argv, env={}, command=line, log=f"{name}.log")
    return with_spec(step, spec)


def host_line(
    name: str, module: str, node: Node, plan: Plan, allocation: Allocation
) -> tuple[list[str], list[str]]:
    """A program of ours on a node itself, outside any container: its argv, the whole line."""
    # -S: the standard library is all it needs, and site-packages on a network disk are slow.
    argv = [sys.executable, "-S", "-m", module]
    return argv, [*_srun(name, node, plan, allocation), *argv]


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


def label_of(node: Node, plan: Plan) -> str:
    """A node's name; logical nodes of one machine share theirs, so they get their number."""
    return node.name if plan.executor == "slurm" else f"{node.name}/{node.index}"


def spec_of(node: Node, asking: Round) -> dict[str, Any]:
    """All that a node needs to know to look at itself."""
    plan, wanted = asking.plan, asking.plan.preflight
    around = asking.supervisor.around
    tokens = dict(around.tokens)
    here: list[Worker] = [worker for worker in plan.workers if worker.node == node.index]
    others = [(label_of(n, plan), n.address) for n in asking.allocation.nodes if n != node]
    skip = "the rehearsal engine has no packages"
    if wanted.inside:
        skip = "told by the container"
    return {
        "inside": False,
        "node": label_of(node, plan),
        "address": node.address,
        "others": others,
        "run_dir": str(around.run_dir.path),
        "token_file": asking.token_file,
        "token": asking.token,
        "own_file": asking.own_file(node),
        "listeners": listeners_on(node, plan, tokens),
        "devices": wanted.devices,
        "paths": [fill(path, tokens) for path in wanted.paths],
        "executables": [fill(path, tokens) for path in wanted.executables],
        "model": wanted.model,
        "engine_python": wanted.engine_python,
        "engine_skipped": skip,
        "cache_dir": wanted.cache_dir,
        "kept_caches": wanted.kept_caches,
        "stage": dataclasses.asdict(plan.stage) if plan.stage else None,
        "run_id": tokens["run_id"],
        "mark": around.mark,
        "min_free_disk_gb": wanted.min_free_disk_gb,
        "min_free_memory_gb": wanted.min_free_memory_gb,
        "max_gpu_used_gb": wanted.max_gpu_used_gb,
        "needs_gpu": plan.needs_gpu,
        "needs_imex": plan.needs_gpu and plan.nodes > 1,
        "granted_cpus": asking.allocation.cpus[node.index] if asking.allocation.cpus else None,
        "gpus": len({gpu for worker in here for gpu in worker.gpus}),
        **_open_files(node, plan),
    }


def _open_files(node: Node, plan: Plan) -> dict[str, int]:
    """A server has one socket a stream; the router two, and neither it nor a client raises its
    own limit."""
    streams = max([point.concurrency for point in plan.points], default=0)
    if plan.accuracy:
        streams = max(streams, plan.accuracy.concurrency)
    clients = {point.step.node for point in plan.points}
    routed = {plan.router.node} if plan.router else set()
    talks = node.index in clients | routed
    needed = streams + SPARE_FILES
    return {"open_files": needed, "open_files_now": streams + needed if talks else 0}


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
