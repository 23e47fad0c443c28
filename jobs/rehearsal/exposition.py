"""The /metrics page, with vLLM's names and labels."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jobs.rehearsal.ranks import Rank, Stage

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")

FETCH_STAGES = (Stage.FETCH_WAITING, Stage.FETCHING, Stage.FETCHED)
TIMES = (
    ("request_queue_time_seconds", "queued", "queue_s"),
    ("request_prefill_time_seconds", "queued", "prefill_s"),
    ("request_decode_time_seconds", "queued", "decode_s"),
)
"""Family, its count, its sum; all of requests that ran."""

Reader = Callable[[Rank], float]


def metrics_text(ranks: Sequence[Rank], model: str, role: str, version: str) -> str:
    """The page: one set of series per rank, and rehearsal_info, which no real engine has."""
    lines = [
        "# HELP rehearsal_info This is the rehearsal engine: no model, no results.",
        "# TYPE rehearsal_info gauge",
        f'rehearsal_info{{role="{role}",version="{version}"}} 1.0',
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {time.process_time()}",
        "# TYPE process_resident_memory_bytes gauge",
        f"process_resident_memory_bytes {_resident_bytes()}",
    ]
    for name, kind, extra, value in _series(ranks):
        if value is None:
            lines.append(f"# TYPE vllm:{name} {kind}")
            continue
        rank, number = value
        labels = f'engine="{rank.number}",model_name="{_escaped(model)}"{extra}'
        lines.append(f"vllm:{name}{{{labels}}} {float(number)}")
    return "\n".join(lines) + "\n"


def _resident_bytes() -> float:
    """Of this process (Linux, proc(5) statm: the second number is resident pages)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return float(pages) * resource.getpagesize()


Line = tuple[str, str, str, tuple[Rank, float] | None]


def _series(ranks: Sequence[Rank]) -> Iterable[Line]:
    """Type lines (no value) and samples, family by family."""
    for name, kind, extra, read in _families():
        base = name.removesuffix("_sum").removesuffix("_count")
        if kind:
            yield base if kind == "histogram" else name, kind, "", None
        for rank in ranks:
            yield name, "", extra, (rank, read(rank))


def _families() -> Iterable[tuple[str, str, str, Reader]]:
    yield "num_requests_running", "gauge", "", lambda r: r.running
    yield "num_requests_waiting", "gauge", "", lambda r: r.waiting
    kind = "gauge"
    for reason, read in WAITING_REASONS:
        yield "num_requests_waiting_by_reason", kind, f',reason="{reason}"', read
        kind = ""
    kind = "gauge"
    for stage in FETCH_STAGES:
        yield "num_requests_kv_fetch_by_stage", kind, f',stage="{stage}"', _in_stage(stage)
        kind = ""
    yield "kv_cache_usage_perc", "gauge", "", lambda r: r.kv.held / r.kv.capacity
    yield "num_preemptions_total", "counter", "", lambda _: 0
    yield "prompt_tokens_total", "counter", "", lambda r: r.counts.prompt
    by_source: list[tuple[str, Reader]] = [
        ("local_compute", lambda r: r.counts.local_compute),
        ("local_cache_hit", lambda r: r.counts.local_cache_hit),
        ("external_kv_transfer", lambda r: r.counts.external),
    ]
    kind = "counter"
    for source, read in by_source:
        yield "prompt_tokens_by_source_total", kind, f',source="{source}"', read
        kind = ""
    yield "generation_tokens_total", "counter", "", lambda r: r.counts.generation
    kind = "counter"
    for reason in FINISH_REASONS:
        label = f',finished_reason="{reason}"'
        yield "request_success_total", kind, label, _finished(reason)
        kind = ""
    for name, count, seconds in TIMES:
        yield f"{name}_count", "histogram", "", _counted(count)
        yield f"{name}_sum", "", "", _counted(seconds)
    yield "external_prefix_cache_queries_total", "counter", "", lambda r: r.counts.external_queries
    yield "external_prefix_cache_hits_total", "counter", "", lambda r: r.counts.external
    yield "nixl_xfer_time_seconds_count", "histogram", "", lambda r: r.counts.transfers
    yield "nixl_xfer_time_seconds_sum", "", "", lambda r: r.counts.transfer_s
    yield "nixl_bytes_transferred_count", "histogram", "", lambda r: r.counts.transfers
    yield "nixl_bytes_transferred_sum", "", "", lambda r: r.counts.transfer_bytes
    yield "nixl_num_failed_transfers_total", "counter", "", lambda r: r.counts.failed_transfers
    yield "nixl_num_failed_notifications_total", "counter", "", lambda _: 0
    yield "nixl_num_kv_expired_reqs_total", "counter", "", _expired


def _capacity(rank: Rank) -> float:
    return rank.waiting - _deferred(rank)


def _deferred(rank: Rank) -> float:
    return rank.stages[Stage.FETCHING]


WAITING_REASONS: tuple[tuple[str, Reader], ...] = (("capacity", _capacity), ("deferred", _deferred))


def _in_stage(stage: Stage) -> Reader:
    return lambda rank: rank.stages[stage]


def _counted(name: str) -> Reader:
    return lambda rank: float(getattr(rank.counts, name))


def _finished(reason: str) -> Reader:
    return lambda rank: rank.counts.finished[reason]


def _expired(rank: Rank) -> float:
    if rank.store is None:
        return 0
    rank.store.sweep()
    return rank.store.expired


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
