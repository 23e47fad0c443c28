"""Reading run.json: types first, then what types cannot say; all problems at once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from jobs.records import SCHEMA_VERSION, RecordError, from_json
from jobs.run_spec import Plan, RunSpec, Step

EXECUTORS = ("slurm", "local")
ROLES = ("prefill", "decode", "aggregated")
FORMS = ("exact", "band")


def read_run(path: Path) -> RunSpec:
    """run.json at `path`; RecordError names the file and the field that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(
            f"{path} does not exist: {path.parent} is not a run directory (the launcher makes one)"
        ) from None
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: cannot be read as JSON: {error}") from error
    run = from_json(RunSpec, data, str(path))
    problems = list(_problems(run))
    if problems:
        raise RecordError(f"{path}: " + "; ".join(problems))
    return run


def _problems(run: RunSpec) -> list[str]:
    """Everything in a well-typed run.json that still cannot be."""
    plan = run.plan
    found = []
    if run.schema != SCHEMA_VERSION:
        found.append(f"schema {run.schema} is another release's; this one reads {SCHEMA_VERSION}")
    words = [
        ("plan.executor", plan.executor, EXECUTORS),
        ("plan.canary.form", plan.canary.form, FORMS),
        *((f"role of {worker.name}", worker.role, ROLES) for worker in plan.workers),
    ]
    for where, word, allowed in words:
        if word not in allowed:
            found.append(f"{where} is {word!r}: allowed are {', '.join(allowed)}")
    if not plan.workers:
        found.append("plan.workers is empty")
    return found + _step_problems(plan)


def _step_problems(plan: Plan) -> list[str]:
    found = []
    steps: list[Step] = [*plan.workers, *(point.step for point in plan.points)]
    steps += [step for step in (plan.router, plan.prompts) if step]
    for step in steps:
        if not 0 <= step.node < plan.nodes:
            found.append(f"{step.name}: node {step.node} is not one of 0..{plan.nodes - 1}")
        if not step.command:
            found.append(f"{step.name}: command is empty")
    names = Counter(step.name for step in steps)
    found += [f"step name {name!r} is used {n} times" for name, n in names.items() if n > 1]
    gates = Counter(point.name for point in plan.points)
    found += [f"point name {name!r} is used {n} times" for name, n in gates.items() if n > 1]
    return found
