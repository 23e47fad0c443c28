"""What one run writes down, as plain typed records: the interface between running and analysing.

Standard library only, so that analysis can read a run without anything else of `jobs`.
Every record is one JSON object in one file; docs/run-directory.md lists the files.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

SCHEMA_VERSION = 1

R = TypeVar("R")


class RecordError(ValueError):
    """A record that cannot be what it claims to be; the text names the field."""


@dataclass(kw_only=True)
class Latency:
    """One latency metric over the successful requests of a point, in milliseconds."""

    mean: float | None = None
    median: float | None = None
    p90: float | None = None
    p99: float | None = None


@dataclass(kw_only=True)
class ServerCounters:
    """What the servers' own counters moved by during a point; None where a server does not tell.

    Token and byte counts are sums over all engines of a role; `gpu` figures do not appear here.
    """

    decode_external_tokens: float | None = None
    decode_local_tokens: float | None = None
    prefill_prompt_tokens: float | None = None
    generation_tokens: float | None = None
    kv_bytes: float | None = None
    kv_transfers: float | None = None
    kv_failed: float | None = None
    kv_expired: float | None = None
    preemptions: float | None = None
    prefill_cached_tokens: float | None = None
    """Prompt tokens that the servers reading prompts found in their own prefix cache."""


@dataclass(kw_only=True)
class Window:
    """What happened within a point's span, by the client's times of single requests.

    None where a client does not tell. `jobs/window.py` says how each is computed.
    """

    peak_concurrency: int | None = None
    """Most requests in flight at once."""
    queue_mean_ms: float | None = None
    """Mean wait inside the client before sending, outside TTFT."""
    first_wave_ttft_ms: float | None = None
    """Mean TTFT of the first `concurrency` requests sent."""
    later_ttft_ms: float | None = None
    """Mean TTFT of all others."""
    first_half_e2el_ms: float | None = None
    """Median E2E of the earlier half of the requests, the first and the last wave left out."""
    second_half_e2el_ms: float | None = None
    """Median E2E of the later half."""
    short_outputs: int | None = None
    """Successful requests with fewer output tokens than asked for."""


@dataclass(kw_only=True)
class ClientLoad:
    """What the client itself was busy with during a point; None where it does not tell."""

    client_processes: int | None = None
    client_cpu_share: float | None = None
    """CPU seconds / wall seconds of the busiest client process, 0..1 of one core."""
    client_loop_lag_p99_ms: float | None = None
    client_loop_lag_max_ms: float | None = None
    ttft_client_added_p99_ms: float | None = None
    """Between a first byte lying ready in a socket and its time stamp, 99th percentile."""


@dataclass(kw_only=True)
class Station:
    """One role's engines in the steady part of a point, looked at again and again; None: not told.

    Requests are means over time, summed over the role's ranks. `busy_share` and `queued_share`
    are shares of all looks at a rank that found a request in its batch, and one waiting.
    """

    ranks: int
    looks: int
    """At all ranks together."""
    running: float | None = None
    waiting: float | None = None
    """Not in a batch, and not because their KV is under way."""
    fetching: float | None = None
    """KV transfers under way, of requests that wait for them."""
    busy_share: float | None = None
    queued_share: float | None = None
    kv_usage: float | None = None
    """Mean over ranks and time, 0..1."""
    kv_usage_p90: float | None = None
    """What nine of ten looks at a rank were below."""
    preemptions: float | None = None
    computed_tps: float | None = None
    """Prompt tokens computed, all ranks, per second."""
    generation_tps: float | None = None
    cpu: float | None = None
    """Cores used by the process that answers HTTP, the busiest one of the role."""
    cpu_process: str = ""
    answer_ms: float | None = None
    """Median time of a metrics page, the slowest process of the role."""


@dataclass(kw_only=True)
class Stations:
    """Where a point's requests stood (jobs/stations.py). `source` is metrics, or log where older
    runs have only the engines' own statistics lines."""

    span_s: float
    """Length of the steady part: ramp-up, warm-up and drain are left out."""
    source: str = "metrics"
    prefill: Station | None = None
    decode: Station | None = None
    aggregated: Station | None = None
    router_active: float | None = None
    """Mean number of requests that the router had under way."""


@dataclass(kw_only=True)
class BenchPoint:
    """One benchmark point: points/<index>-c<concurrency>.json.

    `input_range` and `output_range` are inclusive [low, high] token counts per request;
    `range_definition` is "inferencemax" (U[int(r*L), L]) or "vllm" (U[L(1-r), L(1+r)]).
    Token totals count successful requests only: input as the client counted it, output from
    the server's usage. `duration_s` is the client's own measured span.
    """

    run_id: str
    index: int
    name: str
    engine: str
    rehearsal: bool
    client: str
    concurrency: int
    num_prompts: int
    isl: int
    osl: int
    range_definition: str
    range_ratio: float
    input_range: list[int]
    output_range: list[int]
    seed: int
    started_at: str
    ended_at: str
    duration_s: float
    completed: int
    failed: int
    total_input_tokens: int
    total_output_tokens: int
    warmup_requests: int = 0
    request_throughput: float | None = None
    ttft_ms: Latency = field(default_factory=Latency)
    tpot_ms: Latency = field(default_factory=Latency)
    itl_ms: Latency = field(default_factory=Latency)
    e2el_ms: Latency = field(default_factory=Latency)
    errors: dict[str, int] = field(default_factory=dict)
    server: ServerCounters = field(default_factory=ServerCounters)
    window: Window = field(default_factory=Window)
    load: ClientLoad = field(default_factory=ClientLoad)
    stations: Stations | None = None
    raw: str | None = None
    snapshot: str = ""
    """SHA-256 of what was submitted: code, configuration and plan (run.json: snapshot)."""
    schema: int = SCHEMA_VERSION


@dataclass(kw_only=True)
class AccuracyRepeat:
    """One pass over the questions: accuracy/<repeat>.json.

    `transport_failures` are requests that never got an answer; they are no answers and are not
    scored. `accuracy` = correct / answered. `strict_accuracy` uses the second, stricter
    extraction. `invalid` counts answers in which no number was found; `cut` answers that ended
    at the token limit.
    """

    run_id: str
    repeat: int
    dataset: str
    comparable: bool
    rehearsal: bool
    questions: int
    answered: int
    correct: int
    invalid: int
    cut: int
    transport_failures: int
    accuracy: float | None
    strict_accuracy: float | None
    duration_s: float
    output_tokens: int
    protocol: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    snapshot: str = ""
    schema: int = SCHEMA_VERSION


@dataclass(kw_only=True)
class Teardown:
    """How the run's processes were stopped, as looked at afterwards.

    `processes` were there when it began, `killed` of them did not end on TERM; `survivors` is
    what was still seen at its end, in words (empty is good).
    """

    seconds: float = 0.0
    processes: int = 0
    killed: int = 0
    survivors: list[str] = field(default_factory=list)
    looked_at: str = ""


@dataclass(kw_only=True)
class Outcome:
    """How the run ended: outcome.json. `cause` is one paragraph for people, empty when completed.

    `status` is completed | failed | cancelled | timed_out; a run directory without this file is
    still running, or lost.
    """

    run_id: str
    status: str
    phase: str
    cause: str
    started_at: str
    ended_at: str
    points_written: int
    points_planned: int
    attempts: int = 1
    """How many drivers worked on the run: 1 + requeues and resumes (attempts/<n>.json)."""
    teardown: Teardown | None = None
    schema: int = SCHEMA_VERSION


def to_json(record: Any) -> dict[str, Any]:
    """The record as a JSON object."""
    data: dict[str, Any] = dataclasses.asdict(record)
    return data


def from_json(kind: type[R], data: Any, where: str = "record") -> R:
    """A record read back.

    Unknown fields are ignored (a newer writer); a missing or mistyped one raises RecordError
    with `where` and the field's name.
    """
    if not isinstance(data, dict):
        raise RecordError(f"{where}: expected a JSON object, found {type(data).__name__}")
    values: dict[str, Any] = {}
    for part in _fields(typing.cast(Any, kind)):
        if part.name not in data:
            if part.required:
                raise RecordError(f"{where}: field {part.name!r} is missing")
            continue
        value = data[part.name]
        if type(value) not in part.plain:
            value = _value(part.hint, value, f"{where}: {part.name}")
        values[part.name] = value
    return kind(**values)


class _Field(typing.NamedTuple):
    """A field of a record; values of exactly the types in `plain` need no further look."""

    name: str
    required: bool
    hint: Any
    plain: frozenset[type]


PLAIN = frozenset({str, int, float, bool})


@functools.cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    hints, nothing = typing.get_type_hints(kind), dataclasses.MISSING
    found = []
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        options = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
        named = options - {type(None)}
        plain = frozenset(options) if len(named) == 1 and named <= PLAIN else frozenset()
        required = item.default is nothing and item.default_factory is nothing
        found.append(_Field(item.name, required, hint, plain))
    return tuple(found)


def _value(hint: Any, value: Any, where: str) -> Any:
    """`value` checked against a field's type, nested records built."""
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        return _value(next(o for o in options if o is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(Any, hint), value, where)
    if hint is Any:
        return value
    if origin is list and isinstance(value, list):
        (item,) = typing.get_args(hint)
        if item in PLAIN and all(type(entry) is item for entry in value):
            return value
        return [_value(item, entry, f"{where}[{place}]") for place, entry in enumerate(value)]
    wanted = origin or hint
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted in (int, float) and isinstance(value, bool)):
        raise RecordError(f"{where}: expected {wanted.__name__}, found {value!r}")
    return value
