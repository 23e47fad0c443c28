"""How long each worker took to start, and with what.

    launch     from the step's start to its first words (srun, container, interpreter; vLLM is
               silent during its first imports)
    import     to the first word of weights: imports in every process, configuration, joining ranks
    weights    model built and weights loaded (where no line says so: to the first of the KV cache)
    compile    torch.compile; NA where nothing was compiled
    kv_cache   memory profiling, KV blocks allocated and registered for transfers
    warmup     kernels compiled and tuned, from the KV cache to the first graph or, where no graphs
               were captured, to the end of the engine's own start; NA where neither is told
    graphs     CUDA graphs captured; NA where none were
    ready      the rest, until every rank has given a token to the driver

Bounds come from the engine's log (1 s), else from the driver's events (0.5 s).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import BrokenFileError
from analysis.startup_log import Milestones, read_milestones
from jobs.record_files import read_object
from jobs.store import RunDir

PHASES = ("launch", "import", "weights", "compile", "kv_cache", "warmup", "graphs", "ready")
COLUMNS: Mapping[str, Any] = {
    "process": "string",
    "role": "string",
    "node": "string",
    "phase": "string",
    "start_s": "Float64",
    "end_s": "Float64",
}
EVENT_PHASES = {
    "import": "import", "config": "import", "engine": "import", "weights": "weights",
    "compile": "compile", "kv": "kv_cache", "graphs": "graphs", "ready": "ready",
}  # fmt: skip
"""The driver's words (jobs/engines/vllm_logs.py) by ours."""

ZONE_STEP_S = 900.0
"""Clocks of time zones differ by quarters of an hour."""


@dataclass
class Told:
    """What events.jsonl says of one worker, in seconds since 1970."""

    role: str = ""
    node: str = ""
    log: str = ""
    started: float | None = None
    reached: dict[str, float] = field(default_factory=dict)
    ready: float | None = None


def load_startup(run_path: Path) -> pd.DataFrame:
    """One row per worker and phase, in the order of the plan and of time.

    `start_s` and `end_s` are seconds since the first worker of the run was started, NA where
    unknown or where there was no such phase. Of a run of several attempts, the last one. Empty
    where no worker was started.
    """
    workers = _workers(run_path)
    begun = [told.started for told in workers.values() if told.started is not None]
    rows = []
    for name, told in workers.items():
        if told.started is not None:
            for phase, (start, end) in _phases(run_path, told).items():
                bounds = [None if t is None else t - min(begun) for t in (start, end)]
                rows.append((name, told.role, told.node, phase, *bounds))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict(COLUMNS))


def _workers(run_path: Path) -> dict[str, Told]:
    try:
        plan = read_object(RunDir(run_path).run_json).get("plan")
    except BrokenFileError:
        return {}
    listed = plan.get("workers") if isinstance(plan, dict) else None
    workers = {
        str(w.get("name")): Told(role=str(w.get("role", "")), log=str(w.get("log", "")))
        for w in (listed if isinstance(listed, list) else [])
        if isinstance(w, dict)
    }
    for event in _events(run_path):
        _take(event, workers)
    return workers


def _events(run_path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line of events.jsonl."""
    try:
        lines = RunDir(run_path).events.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _take(event: Mapping[str, Any], workers: dict[str, Told]) -> None:
    """A later start (of another attempt, or after a lost controller) replaces an earlier one."""
    told = workers.get(str(event.get("step")))
    t = _moment(event.get("t"))
    if told is None or t is None:
        return
    if event.get("event") == "started":
        told.started, told.reached, told.ready = t, {}, None
        told.node = str(event.get("node") or told.node)
    elif event.get("event") == "start_up":
        phase = EVENT_PHASES.get(str(event.get("start_up")))
        if phase:
            told.reached.setdefault(phase, t)
    elif event.get("event") == "ready":
        told.ready = t


def _moment(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


Bounds = tuple[float | None, float | None]


def _phases(run_path: Path, told: Told) -> dict[str, Bounds]:
    """Every phase's begin and end, in seconds since 1970."""
    marks = _on_our_clock(run_path, told)
    spoke = _least(marks.first, *told.reached.values())
    loading = _least(marks.begins.get("weights"), default=told.reached.get("weights"))
    first_pool = marks.begins.get("kv_cache", told.reached.get("kv_cache"))
    loaded = marks.ends.get("weights", None if loading is None else first_pool)
    compiled = marks.ends.get("compile")
    pool = _least(marks.ends.get("kv_cache"), default=told.reached.get("kv_cache"))
    graphs = _graphs(marks)
    before_pool = _most(loaded, compiled)
    after_pool, engine = _most(before_pool, pool), marks.ends.get("engine")
    last = _most(after_pool, graphs[1], engine)
    bounds = {
        "launch": (told.started, spoke),
        "import": (spoke, loading),
        "weights": (loading, loaded),
        "compile": (marks.begins.get("compile"), compiled),
        "kv_cache": (before_pool, pool) if before_pool is not None else (None, None),
        "warmup": _between(after_pool, engine if graphs[0] is None else graphs[0]),
        "graphs": graphs,
        "ready": (last, told.ready),
    }
    return {phase: _forward(*pair) for phase, pair in bounds.items()}


def _forward(start: float | None, end: float | None) -> Bounds:
    """Two clocks may put an end a second before its begin."""
    if start is None or end is None:
        return start, end
    return start, max(start, end)


def _between(start: float | None, end: float | None) -> Bounds:
    """Both or none; none too where nothing lies between."""
    return (None, None) if start is None or end is None or end <= start else (start, end)


def _graphs(marks: Milestones) -> Bounds:
    """From the line that says it is finished; else from the words of its beginning to the end of
    the engine's own start."""
    begun = marks.begins.get("graphs")
    if begun is None:
        return None, None
    return begun, marks.ends.get("graphs", marks.ends.get("engine"))


def _on_our_clock(run_path: Path, told: Told) -> Milestones:
    """The log's milestones on the driver's clock."""
    log, year = RunDir(run_path).logs / Path(told.log).name, _year(told)
    marks = read_milestones(log, year)
    return marks if marks.first is None else marks.shifted(_zone_s(told, marks.first))


def _year(told: Told) -> int:
    return datetime.fromtimestamp(_seen(told), UTC).year


def _seen(told: Told) -> float:
    """When the driver saw the worker's first words."""
    return min(told.reached.values(), default=told.started or 0.0)


def _zone_s(told: Told, first: float) -> float:
    """What brings the log's first line next to the first words that the driver saw."""
    return round((_seen(told) - first) / ZONE_STEP_S) * ZONE_STEP_S


@dataclass(frozen=True)
class Clock:
    """A worker's log, and how its stamps become seconds since 1970."""

    process: str
    role: str
    log: Path
    year: int
    shift_s: float


def clocks(run_path: Path) -> list[Clock]:
    """Of every worker that was started and whose log has stamps."""
    found = []
    for name, told in _workers(run_path).items():
        log = RunDir(run_path).logs / Path(told.log).name
        if told.started is None or not log.is_file():
            continue
        first = read_milestones(log, _year(told)).first
        if first is not None:
            found.append(Clock(name, told.role, log, _year(told), _zone_s(told, first)))
    return found


def _least(*times: float | None, default: float | None = None) -> float | None:
    return min((t for t in times if t is not None), default=default)


def _most(*times: float | None) -> float | None:
    return max((t for t in times if t is not None), default=None)
