"""One run as its directory tells it: the plan's facts, the points, the accuracy, the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from analysis.accuracy import AccuracyPlan, AccuracySummary, summarize
from analysis.errors import BrokenFileError
from jobs.records import AccuracyRepeat, BenchPoint, Outcome

STREAMING_ROLES = ("decode", "aggregated")
STREAM_INTERVAL = "--stream-interval"


class WorkerJson(TypedDict, total=False):
    """Of a worker's step, what the analysis looks at."""

    role: Any
    argv: Any


class PointJson(TypedDict, total=False):
    """Of a planned point, what the analysis looks at."""

    index: Any
    concurrency: Any
    workload: Any
    sending: Any
    prompts: Any


class PlanJson(TypedDict, total=False):
    """Of the plan, what the analysis looks at."""

    serving_gpus: Any
    allocated_gpus: Any
    role_gpus: Any
    served_model: Any
    uses_nixl: Any
    segment: Any
    segment_asked: Any
    accuracy: Any
    workers: list[WorkerJson]
    points: list[PointJson]


class RunJson(TypedDict, total=False):
    """Of run.json, what the analysis looks at: a twentieth of what is in it."""

    schema: Any
    run_id: Any
    labels: Any
    engine: Any
    plan: PlanJson
    snapshot: Any


@dataclass(kw_only=True)
class Run:
    """A run; GPU counts are None where the plan has no such GPUs or contradicts itself.

    `stream_interval` is the largest number of tokens a streaming server sends in one chunk.
    `planned` holds (index, concurrency) of every planned point.
    """

    path: Path
    run_id: str
    labels: dict[str, str]
    engine: str
    rehearsal: bool
    served_model: str | None
    serving_gpus: int | None
    allocated_gpus: int | None
    role_gpus: dict[str, int]
    disaggregated: bool
    uses_nixl: bool
    stream_interval: int
    segment: int | None
    """Nodes that shared one NVLink domain; None: not asked of Slurm."""
    segment_asked: int | None
    """The segment that Slurm could not hold, where a smaller one was used."""
    planned: set[tuple[int, int]]
    accuracy_plan: AccuracyPlan | None
    points: list[BenchPoint] = field(default_factory=list)
    repeats: list[AccuracyRepeat] = field(default_factory=list)
    outcome: Outcome | None = None
    workloads: dict[int, str] = field(default_factory=dict)
    """Label of the workload by point, where the run has points of several."""
    snapshot: str | None = None
    """SHA-256 of what was submitted: code, configuration and plan."""
    deployment: str | None = None
    """Content hash of what it serves with, where a sweep submitted it."""
    origin: str | None = None
    """Where a copied run is from, whose points a sweep has used again."""
    accuracy_from: str | None = None
    """The run of the same deployment that asked the questions for this one."""
    canary: str | None = None
    """Verdict of the state canary: passed, void, skipped or failed; None where it never ran."""
    node_doubts: list[str] = field(default_factory=list)
    """What the preflight warned of that slows servers: too few CPUs, a limited fabric."""
    open_loop: set[int] = field(default_factory=set)
    """Points whose requests are sent by the clock: `concurrency` is only their limit."""
    shaped: set[int] = field(default_factory=set)
    """Points whose prompts are no independent uniform draws: shared prefixes, turns, a trace."""
    foreign: str | None = None
    """The other tool whose result this is; it has nothing but the client's figures."""

    @cached_property
    def accuracy(self) -> AccuracySummary | None:
        """The repeats taken together."""
        return summarize(self.repeats)

    @property
    def ended_well(self) -> bool:
        """True unless it ended otherwise than completed, or completed without all its points.

        Of a copied run only points that are whole were taken, however it ended.
        """
        if self.origin is not None:
            return len(self.points) >= len(self.planned)
        if self.outcome is None:
            return True
        return self.outcome.status == "completed" and len(self.points) >= len(self.planned)

    @property
    def status(self) -> str:
        """outcome.json's status; "unfinished" without one: still running, or lost."""
        if self.foreign is not None:
            return "foreign"
        return self.outcome.status if self.outcome else "unfinished"


def parse_run(path: Path, data: dict[str, Any]) -> Run:
    """A Run without its points, from run.json's object; BrokenFileError names what is wrong."""
    engine, plan = _object(data, "engine", path), _object(data, "plan", path)
    if not isinstance(engine.get("rehearsal"), bool):
        raise _broken(path, "engine.rehearsal", engine.get("rehearsal"), "true or false")
    run_id = data.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise _broken(path, "run_id", run_id, "a name")
    serving, roles = _count(plan.get("serving_gpus")), _role_gpus(plan, path)
    if serving is not None and roles and sum(roles.values()) != serving:
        raise _broken(path, "plan.serving_gpus", serving, f"the sum of role_gpus {roles}")
    workers, points = _objects(plan.get("workers")), _objects(plan.get("points"))
    numbered = {p["index"]: p for p in points if isinstance(p.get("index"), int)}
    return Run(
        path=path,
        run_id=run_id,
        labels=_texts(data.get("labels")),
        engine=" ".join(str(engine[key]) for key in ("name", "release") if engine.get(key)),
        rehearsal=engine["rehearsal"] or engine.get("name") == "rehearsal",
        served_model=_text(plan.get("served_model")),
        serving_gpus=serving,
        allocated_gpus=_count(plan.get("allocated_gpus")),
        role_gpus=roles,
        disaggregated="prefill" in roles or any(w.get("role") == "prefill" for w in workers),
        uses_nixl=plan.get("uses_nixl") is True,
        stream_interval=max([1, *(_stream_interval(worker) for worker in workers)]),
        segment=_count(plan.get("segment")),
        segment_asked=_count(plan.get("segment_asked")),
        planned=set(_planned(points)),
        workloads={i: text for i, p in numbered.items() if (text := _text(p.get("workload")))},
        open_loop={index for index, point in numbered.items() if _by_the_clock(point)},
        shaped={index for index, point in numbered.items() if _source(point) != "random"},
        snapshot=_snapshot(data),
        accuracy_plan=_accuracy_plan(plan.get("accuracy"), path),
    )


def _stream_interval(worker: dict[str, Any]) -> int:
    """Tokens per streamed chunk, from the worker's own command line; 1 when it says nothing."""
    if worker.get("role") not in STREAMING_ROLES:
        return 1
    argv = [word for word in _list(worker.get("argv")) if isinstance(word, str)]
    values = [
        value or after
        for word, after in zip(argv, [*argv[1:], ""], strict=True)
        for name, _, value in [word.partition("=")]
        if name.replace("_", "-") == STREAM_INTERVAL
    ]
    return max([1, *(int(value) for value in values if value.isdecimal() and len(value) < 10)])


def _accuracy_plan(data: Any, path: Path) -> AccuracyPlan | None:
    if data is None:
        return None
    dataset = data.get("dataset") if isinstance(data, dict) else None
    if not isinstance(dataset, str):
        raise _broken(path, "plan.accuracy.dataset", dataset, "a name")
    return AccuracyPlan(
        dataset=dataset,
        comparable=data.get("comparable") is True,
        repeats=_count(data.get("repeats")) or 1,
        reference=_share(data.get("reference")),
        tolerance=_share(data.get("tolerance")) or 0.0,
    )


def _role_gpus(plan: dict[str, Any], path: Path) -> dict[str, int]:
    given = plan.get("role_gpus")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _broken(path, "plan.role_gpus", given, "an object of counts")
    counts = {role: _count(value) for role, value in given.items()}
    return {role: count for role, count in counts.items() if count is not None}


def _planned(points: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    for point in points:
        index, concurrency = point.get("index"), point.get("concurrency")
        if isinstance(index, int) and isinstance(concurrency, int):
            yield index, concurrency


def _by_the_clock(point: dict[str, Any]) -> bool:
    sending = point.get("sending")
    rate = sending.get("request_rate") if isinstance(sending, dict) else None
    return rate is not None or _source(point) == "trace"


def _source(point: dict[str, Any]) -> str:
    """Where the prompts are from; older plans know random draws only."""
    prompts = point.get("prompts")
    return str(prompts.get("source", "random")) if isinstance(prompts, dict) else "random"


def _snapshot(data: dict[str, Any]) -> str | None:
    told = data.get("snapshot")
    return _text(told.get("sha256")) if isinstance(told, dict) else None


def _object(data: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict):
        raise _broken(path, name, value, "an object")
    return value


def _broken(path: Path, name: str, value: Any, wanted: str) -> BrokenFileError:
    return BrokenFileError(f"{path}/run.json: {name}: {value!r:.80}, expected {wanted}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in items if isinstance(text, str) and text}


def _count(value: Any) -> int | None:
    """A positive whole number; anything else is no divisor."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9
    return value if usable else None


def _share(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if usable else None
