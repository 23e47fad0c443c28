"""The plan as one document: every process with its exact command, as run.json carries it."""

from __future__ import annotations

from typing import Any

from launcher.clients import base_url, client_step, result_path
from launcher.document import plain
from launcher.engines import ENGINES
from launcher.estimate import estimate
from launcher.placement import Placement, WorkerProcess
from launcher.plan import Endpoint, LaunchPlan, Point
from launcher.ports import process_ports
from launcher.preflight import preflight_document
from launcher.prompts import prompts_mounts, prompts_order, prompts_step
from launcher.router import router_step, worker_url
from launcher.segment import segment_of
from launcher.staging import stage_document, staged_mounts
from launcher.steps import Step, Surroundings, step_document


def plan_document(plan: LaunchPlan, placement: Placement, around: Surroundings) -> dict[str, Any]:
    """What jobs/ needs to run the plan: text only, with {nodeI.address}, {nodeI.name}, {run_dir}
    and {run_id} standing for what the allocation will tell."""
    config, engine = plan.config, ENGINES[plan.config.engine.kind]
    mounts = container_mounts(plan, around)
    router = router_step(plan, placement, around)
    return {
        "executor": config.cluster.executor,
        "nodes": placement.nodes,
        "gpus_per_node": placement.gpus_per_node,
        "serving_gpus": plan.serving_gpus,
        "allocated_gpus": placement.allocated_gpus,
        "role_gpus": plan.role_gpus(),
        "segment": segment_of(plan, placement),
        "nvlink_domain_nodes": config.cluster.nvlink_domain_nodes,
        "served_model": config.model.served_name,
        "tokenizer": config.model.tokenizer or config.model.path,
        "vocab_size": config.model.vocab_size,
        "needs_gpu": config.engine.device == "cuda",
        "uses_nixl": engine.transfers_kv(plan),
        "stage": stage_document(config),
        "workers": [
            _worker_document(process, plan, around, (*mounts, *staged_mounts(config)))
            for process in placement.processes
        ],
        "router": {
            **step_document(router, config.cluster, mounts),
            "url": base_url(plan),
            "listeners": [{"what": "metrics", "port": config.cluster.ports.router_metrics}],
        },
        "base_url": base_url(plan),
        "prompts": _prompts_document(plan, around, mounts),
        "points": [_point_document(point, plan, around, mounts) for point in plan.points],
        "accuracy": accuracy_document(plan),
        "canary": canary_document(plan),
        "budgets": plain(config.cluster.budgets),
        "log_limit_mb": config.cluster.log_limit_mb,
        "sample_s": config.cluster.sample_s,
        "preflight": preflight_document(plan, placement, around, mounts),
        "time_estimate": made.document() if (made := estimate(plan)) else None,
        "time_limit": config.cluster.time,
    }


def worker_step(process: WorkerProcess, plan: LaunchPlan, around: Surroundings) -> Step:
    """One worker process as a step."""
    engine = ENGINES[plan.config.engine.kind]
    return Step(
        name=process.name,
        node=process.node,
        argv=tuple(engine.worker_argv(process, plan, around)),
        env=engine.worker_env(process, plan, around),
        gpus=len(process.gpus),
        contained=engine.contained(),
    )


def _worker_document(
    process: WorkerProcess, plan: LaunchPlan, around: Surroundings, mounts: tuple[str, ...]
) -> dict[str, Any]:
    cluster = plan.config.cluster
    ports = process_ports(process, cluster.ports)
    nixl = ports.nixl if ENGINES[plan.config.engine.kind].transfers_kv(plan) else ()
    named: dict[str, Any] = {}
    if ports.http is not None:
        named["http"] = ports.http
    if process.endpoint.dp > 1 or process.spans_rank:
        named["rpc"] = ports.rpc
    if nixl:
        named |= {"nixl_base": ports.nixl_base, "nixl": list(nixl)}
    return {
        **step_document(worker_step(process, plan, around), cluster, mounts),
        "role": process.endpoint.role,
        "endpoint": process.endpoint.index,
        "node_rank": process.node_rank,
        "leader": process.leader,
        "gpus": list(process.gpus),
        "dp_ranks": list(process.dp_ranks),
        "dp": process.endpoint.dp,
        "served_ranks": _served_ranks(process),
        "url": worker_url(process, plan),
        "ports": named,
        "listeners": [
            {"what": f"nixl side channel rank {rank}", "port": port}
            for port, rank in zip(nixl, process.dp_ranks, strict=False)
        ],
    }


def _prompts_document(
    plan: LaunchPlan, around: Surroundings, mounts: tuple[str, ...]
) -> dict[str, Any]:
    """The step that makes all prompts, and what it is to make."""
    step = prompts_step(plan, around)
    seen = tuple(dict.fromkeys((*mounts, *prompts_mounts(plan.config))))
    return {
        **step_document(step, plan.config.cluster, seen),
        "order": prompts_order(plan),
    }


def _served_ranks(process: WorkerProcess) -> list[int]:
    """Global DP ranks that this process's HTTP address reaches, in header order."""
    if not process.serves_http:
        return []
    endpoint: Endpoint = process.endpoint
    if endpoint.load_balancing == "hybrid" or process.endpoint_nodes == 1:
        return list(process.dp_ranks)
    return list(range(endpoint.dp))


def _point_document(
    point: Point, plan: LaunchPlan, around: Surroundings, mounts: tuple[str, ...]
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "index": point.index,
        "name": point.name,
        "concurrency": point.concurrency,
        "num_prompts": point.num_prompts,
        "warmup_requests": point.warmup_requests,
        "isl": point.isl,
        "osl": point.osl,
        "range": {
            "definition": point.range_definition,
            "ratio": point.range_ratio,
            "input": list(point.input_range),
            "output": list(point.output_range),
        },
        "seed": point.seed,
        "repeat": point.repeat,
        "client": point.client,
        "prompts": plain(point.prompts),
        "goodput": {"ttft_ms": point.goodput_ttft_ms, "tpot_ms": point.goodput_tpot_ms},
        "sending": plain(point.sending),
        "step": step_document(client_step(point, plan, around), plan.config.cluster, mounts),
        "result": result_path(point),
    }
    return document | ({"workload": point.workload} if point.workload else {})


def accuracy_document(plan: LaunchPlan) -> dict[str, Any] | None:
    """Questions, protocol and gate; None when no accuracy run is asked for."""
    accuracy = plan.config.accuracy
    if accuracy.dataset == "none":
        return None
    gsm8k = accuracy.dataset == "gsm8k"
    return {
        "dataset": accuracy.dataset,
        "comparable": gsm8k,
        "repeats": accuracy.repeats,
        "questions_path": f"{accuracy.data_dir}/test.jsonl" if gsm8k else None,
        "shots_path": f"{accuracy.data_dir}/train.jsonl" if gsm8k else None,
        "num_questions": accuracy.num_questions,
        "num_shots": accuracy.num_shots,
        "max_tokens": accuracy.max_tokens,
        "temperature": accuracy.temperature,
        "seed": accuracy.seed,
        "stop": list(accuracy.stop),
        "concurrency": accuracy.concurrency,
        "timeout_s": accuracy.timeout_s,
        "retries": accuracy.retries,
        "reference": plan.config.model.gsm8k_reference if gsm8k else None,
        "tolerance": accuracy.tolerance,
    }


def canary_document(plan: LaunchPlan) -> dict[str, Any]:
    """How transferred state is proved; `exact` only where both roles compute alike."""
    canary = plan.config.canary
    form = canary.form
    if form == "auto":
        shapes = {
            (endpoint.tp, endpoint.pp, endpoint.dp, endpoint.expert_parallel)
            for endpoint in plan.endpoints
        }
        form = "exact" if len(shapes) == 1 else "band"
    return {
        "enabled": canary.enabled and plan.disaggregated,
        "prompts": canary.prompts,
        "tokens": canary.tokens,
        "prompt_tokens": canary.prompt_tokens,
        "form": form,
    }


def container_mounts(plan: LaunchPlan, around: Surroundings) -> tuple[str, ...]:
    """Folders a contained step sees at their own paths: model, code, run directory."""
    if plan.config.cluster.container.kind == "none":
        return ()
    folders = [plan.config.model.path, around.code_dir, "{run_dir}"]
    return tuple(f"{folder}:{folder}" for folder in folders)
