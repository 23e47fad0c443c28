"""The /metrics page, with vLLM's names and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jobs.rehearsal.ranks import KV_CAPACITY_TOKENS, Rank

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")

Reader = Callable[[Rank], float]


def metrics_text(ranks: Sequence[Rank], model: str, role: str, version: str) -> str:
    """The page: one set of series per rank, and rehearsal_info, which no real engine has."""
    lines = [
        "# HELP rehearsal_info This is the rehearsal engine: no model, no results.",
        "# TYPE rehearsal_info gauge",
        f'rehearsal_info{{role="{role}",version="{version}"}} 1.0',
    ]
    for name, kind, extra, value in _series(ranks):
        if value is None:
            lines.append(f"# TYPE vllm:{name} {kind}")
            continue
        rank, number = value
        labels = f'engine="{rank.number}",model_name="{_escaped(model)}"{extra}'
        lines.append(f"vllm:{name}{{{labels}}} {float(number)}")
    return "\n".join(lines) + "\n"


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
    yield "kv_cache_usage_perc", "gauge", "", lambda r: r.tokens_held / KV_CAPACITY_TOKENS
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
    yield "nixl_xfer_time_seconds_count", "histogram", "", lambda r: r.counts.transfers
    yield "nixl_xfer_time_seconds_sum", "", "", lambda r: r.counts.transfer_s
    yield "nixl_bytes_transferred_count", "histogram", "", lambda r: r.counts.transfers
    yield "nixl_bytes_transferred_sum", "", "", lambda r: r.counts.transfer_bytes
    yield "nixl_num_failed_transfers_total", "counter", "", lambda r: r.counts.failed_transfers
    yield "nixl_num_failed_notifications_total", "counter", "", lambda _: 0
    yield "nixl_num_kv_expired_reqs_total", "counter", "", _expired


def _finished(reason: str) -> Reader:
    return lambda rank: rank.counts.finished[reason]


def _expired(rank: Rank) -> float:
    if rank.store is None:
        return 0
    rank.store.sweep()
    return rank.store.expired


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
