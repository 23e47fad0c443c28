"""The dry run: the whole plan on made-up nodes, for people or as one JSON document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.capacity import Capacity, capacity_document
from launcher.capacity_table import capacity_lines
from launcher.document import with_made_up_nodes
from launcher.time_limit import clock

PREVIEW_DIR = "/RUN"
"""Stands for the run directory, which a dry run does not make."""

SHOWN = (
    *("executor", "nodes", "gpus_per_node", "serving_gpus", "allocated_gpus", "role_gpus"),
    *(
        "segment",
        "workers",
        "router",
        "prompts",
        "points",
        "accuracy",
        "canary",
        "time_estimate",
        "time_limit",
    ),
)


def preview_document(
    plan_document: dict[str, Any],
    sbatch: str | None,
    warnings: Sequence[str] = (),
    capacity: Capacity | None = None,
) -> dict[str, Any]:
    """What `dry_run=json` prints; docs/dry-run.md documents every key."""
    made_up: dict[str, Any] = with_made_up_nodes(plan_document, PREVIEW_DIR)
    document = {key: made_up[key] for key in SHOWN}
    document["node_names"] = [f"node{index}" for index in range(made_up["nodes"])]
    document["sbatch"] = sbatch
    document["capacity"] = capacity_document(capacity)
    document["warnings"] = list(warnings)
    return document


def preview_text(document: dict[str, Any], capacity: Capacity | None = None) -> str:
    """What `dry_run=true` prints."""
    lines = _lines(document, capacity)
    return "\n".join([*lines, *(f"warning: {text}" for text in document["warnings"])])


def _lines(document: dict[str, Any], capacity: Capacity | None) -> Iterator[str]:
    segment = document["segment"]
    roles = ", ".join(f"{gpus} {role}" for role, gpus in document["role_gpus"].items())
    yield (
        f"{document['nodes']} nodes x {document['gpus_per_node']} GPUs = "
        f"{document['allocated_gpus']} allocated, {document['serving_gpus']} serving ({roles}); "
        + (f"segment {segment} (nodes in one block)" if segment else "no segment")
    )
    yield ""
    yield f"{'worker':<12} {'node':<7} {'GPUs':<9} {'DP ranks':<10} {'HTTP':<6} {'RPC':<6} NIXL"
    for worker in document["workers"]:
        yield _worker_line(worker)
    if capacity is not None:
        yield ""
        yield from capacity_lines(capacity)
    for worker in document["workers"]:
        yield from _step_lines(worker)
    yield from _step_lines(document["router"])
    yield from _step_lines(document["prompts"])
    yield ""
    yield f"{len(document['points'])} points:"
    for point in document["points"]:
        low, high = point["range"]["input"]
        out_low, out_high = point["range"]["output"]
        rate, warmup = (point["sending"][key] for key in ("request_rate", "warmup_rate"))
        yield (
            f"  {point['name']:<7} {point['num_prompts']} requests{_at(rate)} after "
            f"{point['warmup_requests']} for warm-up{_at(warmup)}, input {low}..{high}, output "
            f"{out_low}..{out_high} tokens ({point['range']['definition']}), seed {point['seed']}"
        )
    for point in document["points"]:
        yield from _step_lines(point["step"])
    accuracy = document["accuracy"]
    yield ""
    yield f"accuracy: {_accuracy_line(accuracy)}"
    canary = document["canary"]
    yield f"canary: {canary['form'] + ' form' if canary['enabled'] else 'off'}"
    yield _time_line(document["time_estimate"], document["time_limit"])
    if document["sbatch"]:
        yield "\nsbatch script:"
        yield from (f"  {line}" for line in document["sbatch"].splitlines())


def _at(rate: float | None) -> str:
    return "" if rate is None else f" at {rate:g}/s"


def _worker_line(worker: dict[str, Any]) -> str:
    ports = worker["ports"]
    gpus = ",".join(str(gpu) for gpu in worker["gpus"])
    ranks = ",".join(str(rank) for rank in worker["dp_ranks"])
    nixl = ",".join(str(port) for port in ports.get("nixl", ())) or "-"
    return (
        f"{worker['name']:<12} node{worker['node']:<3} {gpus:<9} {ranks:<10} "
        f"{ports.get('http', '-'):<6} {ports.get('rpc', '-'):<6} {nixl}"
    )


def _step_lines(step: dict[str, Any]) -> Iterator[str]:
    yield f"\n{step['name']} on node{step['node']}:"
    for key, value in step["env"].items():
        yield f"  {key}={shlex.quote(value)}"
    yield f"  {shlex.join(step['command'])}"


def _time_line(estimate: dict[str, Any] | None, limit: str) -> str:
    if estimate is None:
        return f"time: limit {limit}; no estimate (model.expected is not set, or no GPUs)"
    points = estimate["points_s"]
    return (
        f"time: limit {limit}, estimate {clock(estimate['total_s'])}: start "
        f"{clock(estimate['start_s'])}, {len(points)} points {clock(sum(points.values()))}, "
        f"accuracy {clock(estimate['accuracy_s'])}; an estimate, assumed: "
        f"{estimate['assumptions']}"
    )


def _accuracy_line(accuracy: dict[str, Any] | None) -> str:
    if accuracy is None:
        return "none"
    asked = accuracy["num_questions"] or "all"
    name = "GSM8K" if accuracy["dataset"] == "gsm8k" else "word problems (not comparable)"
    gate = ""
    if accuracy["reference"] is not None:
        gate = f", gate >= {accuracy['reference'] - accuracy['tolerance']:.2f}"
    return (
        f"{name}, {asked} questions x {accuracy['repeats']} repeats, "
        f"{accuracy['num_shots']}-shot{gate}"
    )
