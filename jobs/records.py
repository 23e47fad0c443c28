"""What one run writes down, as plain typed records: the interface between running and analysing.

Standard library only, so that analysis can read a run without anything else of `jobs`.
Every record is one JSON object in one file; docs/run-directory.md lists the files.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
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
    other_prompts: int | None = None
    """Successful requests whose server counted another prompt length than the prompt file; of a
    session the first turn only."""
    other_prompt_tokens: int | None = None
    """Tokens by which these differ, more or fewer, all added up."""


@dataclass(kw_only=True)
class ClientLoad:
    """What the client itself was busy with during a point; None where it does not tell."""

    client_processes: int | None = None
    client_cpu_s: float | None = None
    """CPU seconds of all client processes within the span."""
    client_cpu_share: float | None = None
    """CPU seconds / wall seconds of the busiest client process, 0..1 of one core."""
    client_cpu_peak_share: float | None = None
    """The same in its busiest second."""
    client_loop_lag_p99_ms: float | None = None
    client_loop_lag_max_ms: float | None = None
    client_backlog_max: int | None = None
    """Open loop: most requests that were due and not sent, by one process."""
    client_send_late_p99_ms: float | None = None
    """Open loop: how much later than due requests were sent, 99th percentile."""
    ttft_client_added_p99_ms: float | None = None
    """Between a first byte lying ready in a socket and its time stamp, 99th percentile."""


@dataclass(kw_only=True)
class Station:
    """One role's engines in the steady part of a point, looked at again and again; None: not told.

    Requests are means over time, summed over the role's ranks. `busy_share` and `queued_share`
    are shares of all looks at a rank that found a request in its batch, and one waiting; at
    prefill `running` and `busy_share` are by its counters (jobs/prefill_work.py).
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

    With a `request_rate` (requests a second) requests are sent by the clock, in gaps of gamma
    shape `burstiness`, at most `concurrency` at a time; without one it is a closed loop of
    `concurrency` streams. `goodput_share` is of all requests, failed ones too, those that kept
    both limits (None: no limit); None where there are no limits.
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
    source: str = "random"
    """Where its requests came from; of `trace` and `multi_turn` the ranges are what was asked."""
    repeat: int = 0
    """Which measurement of this point in the run, from 0; each has prompts of its own."""
    request_rate: float | None = None
    burstiness: float | None = None
    started_at: str
    ended_at: str
    duration_s: float
    completed: int
    failed: int
    total_input_tokens: int
    total_output_tokens: int
    warmup_requests: int = 0
    request_throughput: float | None = None
    goodput_share: float | None = None
    goodput_ttft_ms: float | None = None
    goodput_tpot_ms: float | None = None
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
    values = {}
    for name, needed, read in _readers(typing.cast(Any, kind)):
        if name in data:
            values[name] = read(data[name], where, name)
        elif needed:
            raise RecordError(f"{where}: field {name!r} is missing")
    return kind(**values)


Read = Callable[[Any, str, str], Any]
"""A value checked against a field's type: (value, where, the field's name)."""


@functools.cache
def _readers(kind: Any) -> tuple[tuple[str, bool, Read], ...]:
    """Each field's name, whether it is needed, and how it is read; worked out once a type."""
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    return tuple(
        (
            each.name,
            each.default is none and each.default_factory is none,
            _reader(hints[each.name]),
        )
        for each in dataclasses.fields(kind)
    )


def _reader(hint: Any) -> Read:
    """How a value of this type is read, nested records built."""
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        (inner,) = (option for option in typing.get_args(hint) if option is not type(None))
        read_inner = _reader(inner)
        return lambda value, where, name: None if value is None else read_inner(value, where, name)
    if dataclasses.is_dataclass(hint):
        nested = typing.cast(Any, hint)
        return lambda value, where, name: _nested(nested, value, where, name)
    if hint is Any:
        return _anything
    if origin is list:
        (item,) = typing.get_args(hint)
        return _list_reader(_reader(item))
    return _plain_reader(origin or hint)


def _anything(value: Any, _where: str, _name: str) -> Any:
    return value


def _nested(kind: Any, value: Any, where: str, name: str) -> Any:
    """A record within a record; what is wrong with it is told with the field's name."""
    try:
        return from_json(kind, value, "")
    except RecordError as error:
        raise RecordError(f"{where}: {name}{error}") from None


def _list_reader(read_item: Read) -> Read:
    def read(value: Any, where: str, name: str) -> Any:
        if not isinstance(value, list):
            raise RecordError(f"{where}: {name}: expected list, found {value!r}")
        return [read_item(entry, where, f"{name}[{place}]") for place, entry in enumerate(value)]

    return read


def _plain_reader(wanted: Any) -> Read:
    def read(value: Any, where: str, name: str) -> Any:
        if type(value) is wanted:
            return value
        if wanted is float and type(value) is int:
            return float(value)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise RecordError(f"{where}: {name}: expected {wanted.__name__}, found {value!r}")
        return value

    return read
