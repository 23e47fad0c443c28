"""What a run serves with, as one content hash: points of different deployments never mix.

Part of the deployment: every worker's and the router's command, flags, environment and node; the
shape (executor, nodes, GPUs per node, segment); engine and release; container; the model and
tokenizer (their folders' files with sizes, and the hash of config.json); the installed versions of
engine and router. Not part of it: load (points, accuracy), budgets, account, partition, time
limit, and which nodes Slurm gave.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jobs.errors import JobError
from jobs.processes import CODE_DIR
from jobs.record_files import read_object
from jobs.store import RunDir, write_json

SHAPE = ("executor", "nodes", "gpus_per_node", "segment", "nvlink_domain_nodes", "needs_gpu")
SERVED = ("served_model", "tokenizer", "vocab_size", "uses_nixl", "base_url")
STEP = ("node", "argv", "env", "command", "role", "gpus", "dp_ranks", "url", "ports")
DIST = re.compile(r"(vllm|vllm_router|nixl|nixl_cu12|nixl_cu13|flashinfer_python|torch)-([^-]+)")


def deployment_of(data: dict[str, Any], seen: dict[Any, Any] | None = None) -> dict[str, Any]:
    """The parts of run.json's object that make the deployment, and what is installed here.

    `seen` remembers folders between the many documents of one sweep.
    """
    seen = {} if seen is None else seen

    def look(what: Callable[[Any], Any], folder: Any) -> Any:
        if (what, folder) not in seen:
            seen[what, folder] = what(folder)
        return seen[what, folder]

    plan = data["plan"]
    config = data.get("config") or {}
    steps = [*plan["workers"], *([plan["router"]] if plan.get("router") else [])]
    return {
        "shape": {key: plan.get(key) for key in SHAPE},
        "served": {key: plan.get(key) for key in SERVED},
        "engine": data["engine"],
        "container": (config.get("cluster") or {}).get("container"),
        "steps": {step["name"]: {key: step[key] for key in STEP if key in step} for step in steps},
        "found": {
            "model": look(folder_print, (config.get("model") or {}).get("path")),
            "tokenizer": look(folder_print, plan.get("tokenizer")),
            "engine_environment": look(versions, (config.get("engine") or {}).get("env_dir")),
            "router_environment": look(versions, _router_environment(plan)),
        },
    }


def fingerprint(deployment: dict[str, Any]) -> str:
    """SHA-256 of the parts in one canonical spelling."""
    text = json.dumps(deployment, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Every value that is not the same, as `where: before -> now`.

    What is not seen from here (a model that only the nodes see) is no difference.
    """
    if before == now:
        return
    if where.startswith("found.") and (before is None or now is None):
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            inner = f"{where}.{key}" if where else str(key)
            yield from differences(before.get(key), now.get(key), inner)
        return
    if isinstance(before, list) and isinstance(now, list):
        gone = [item for item in before if item not in now]
        new = [item for item in now if item not in before]
        yield f"{where}: {_short(gone)} -> {_short(new)}"
        return
    yield f"{where}: {_short(before)} -> {_short(now)}"


def record_of(run_dir: RunDir) -> dict[str, Any] | None:
    """deployment.json, as the first attempt wrote it; None before that."""
    return read_object(run_dir.deployment) if os.path.lexists(run_dir.deployment) else None


def settle(run_dir: RunDir) -> str | None:
    """Writes deployment.json in the first attempt; JobError in a later one that serves otherwise.

    Returns what to warn of: that the program text changed, which spoils no point but is told.
    """
    now, code = deployment_of(read_object(run_dir.run_json)), code_print()
    before = record_of(run_dir)
    if before is None:
        told = {"schema": 1, "sha256": fingerprint(now), "code": code, "deployment": now}
        write_json(run_dir.deployment, told)
        return None
    changed = list(differences(before.get("deployment"), now))
    if changed:
        raise JobError(
            "this attempt's deployment is not the one that measured the run's points (they are "
            "kept); launch a new run, or put back:\n  " + "\n  ".join(changed)
        )
    if before.get("code") != code:
        return "the launcher's own code (jobs/) has changed since the run's first attempt"
    return None


def folder_print(path: Any) -> dict[str, Any] | None:
    """A model folder's files with their sizes, and config.json's hash; None when not seen."""
    folder = Path(path) if isinstance(path, str) else None
    if folder is None or not folder.is_dir():
        return None
    config = folder / "config.json"
    files = {item.name: item.stat().st_size for item in folder.iterdir() if item.is_file()}
    digest = hashlib.sha256(config.read_bytes()).hexdigest() if config.is_file() else None
    return {"config_sha256": digest, "files": files}


def versions(environment: Any) -> dict[str, str] | None:
    """Installed versions that matter in a Python environment; None when it is not seen."""
    if not isinstance(environment, str) or not Path(environment).is_dir():
        return None
    found = {}
    for item in Path(environment).glob("lib/python3*/site-packages/*.dist-info"):
        match = DIST.fullmatch(item.name.removesuffix(".dist-info").lower())
        if match:
            found[match[1]] = match[2]
    return found


def code_print(code_dir: Path = CODE_DIR) -> str:
    """SHA-256 over the job's own program text: what measures, as against what is measured."""
    total = hashlib.sha256()
    for path in sorted((code_dir / "jobs").rglob("*.py")):
        total.update(str(path.relative_to(code_dir)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def _router_environment(plan: dict[str, Any]) -> str | None:
    argv = (plan.get("router") or {}).get("argv") or []
    program = Path(argv[0]) if argv else None
    return str(program.parent.parent) if program and program.is_absolute() else None


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 160 else f"{text[:150]}..."
