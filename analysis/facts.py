"""Runs laid out as one tidy frame: a row per point, the facts that columns are computed from.

Facts are what records say, untouched, except that text is made printable and that latencies which
were not measured are missing already.
"""

from __future__ import annotations

import operator
from typing import Any

import pandas as pd

from analysis.bottleneck import bottleneck
from analysis.load import Loaded
from analysis.point import (
    cached_share,
    external_share,
    goodput_limits,
    in_flight,
    latency_is_measured,
    mean_length,
)
from analysis.run import Run
from analysis.safetext import printable
from analysis.stations import stations_of
from analysis.verdict import Judge
from jobs.records import BenchPoint

LATENCIES = ("ttft", "tpot", "itl", "e2el")
STATISTICS = ("mean", "median", "p90", "p99")
LABELS = ("topology", "model", "flags", "workload", "cluster", "router")
LATENCY_FACTS = tuple((n, each, f"{n}_{each}_ms") for n in LATENCIES for each in STATISTICS)
COUNTERS = ("kv_bytes", "kv_transfers", "kv_failed", "kv_expired", "preemptions")

WINDOW = ("peak_concurrency", "queue_mean_ms", "short_outputs", "first_half_e2el_ms",
          "second_half_e2el_ms")  # fmt: skip
LOAD = ("client_processes", "client_cpu_s", "client_cpu_share", "client_cpu_peak_share",
        "client_loop_lag_p99_ms", "client_loop_lag_max_ms", "client_backlog_max",
        "client_send_late_p99_ms", "ttft_client_added_p99_ms")  # fmt: skip
OPEN_LOOP = ("client_backlog_max", "client_send_late_p99_ms")
# Fact by what follows "accuracy": the field of the summary.
ACCURACY = {
    "": "mean", "_low": "low", "_high": "high", "_t_low": "t_low", "_t_high": "t_high",
    "_repeats": "repeats", "_answers": "answered", "_invalid_rate": "invalid_rate",
    "_cut_rate": "cut_rate", "_transport_failures": "transport_failures", "_strict": "strict",
}  # fmt: skip

# Fact by the place in a point's record where it stands as it is.
RECORDED = {
    **{name: f"server.{name}" for name in COUNTERS},
    **{name: f"window.{name}" for name in WINDOW},
    **{name: f"load.{name}" for name in LOAD},
    **{name: name for name in ("request_rate", "burstiness", "goodput_share", "range_ratio",
                               "seed", "num_prompts", "completed", "failed", "duration_s")},
    "input_tokens": "total_input_tokens", "output_tokens": "total_output_tokens",
    "ttft_first_wave_mean_ms": "window.first_wave_ttft_ms",
    "ttft_later_mean_ms": "window.later_ttft_ms",
    **{label: f"{name}_ms.{statistic}" for name, statistic, label in LATENCY_FACTS},
}  # fmt: skip
_recorded = operator.attrgetter(*RECORDED.values())

Row = dict[str, Any]


def tidy(loaded: Loaded) -> pd.DataFrame:
    """One row per point, in the order the runs were given."""
    rows: list[Row] = []
    for run in loaded.runs:
        shared, judged = _run_facts(run) | _accuracy_facts(run), Judge(run)
        rows += [_row(shared, judged, point) for point in run.points]
    if loaded.rows:
        shown = [{name: _plain(value) for name, value in row.items()} for row in loaded.rows]
        return pd.DataFrame([*rows, *shown], dtype=object)
    if not rows:
        return pd.DataFrame(columns=["run"], dtype=object)
    # All rows have the same keys in the same order: columns are read straight off.
    columns = zip(*(row.values() for row in rows), strict=True)
    return pd.DataFrame(dict(zip(rows[0], columns, strict=True)), dtype=object)


def _row(shared: Row, judged: Judge, point: BenchPoint) -> Row:
    row = dict(shared)
    row.update(zip(RECORDED, _recorded(point), strict=True))
    row.update(_point_facts(judged.run, point))
    row.update(_missing(judged.run, point))
    row.update(_judged(judged, point))
    return row


def _plain(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _run_facts(run: Run) -> Row:
    labels = {name: _shown(run.labels.get(name)) for name in LABELS}
    return labels | {
        "run": printable(run.run_id),
        "path": printable(str(run.path)),
        "engine": printable(run.engine),
        "served_model": _shown(run.served_model),
        "serving_gpus": run.serving_gpus,
        "allocated_gpus": run.allocated_gpus,
        "prefill_gpus": run.role_gpus.get("prefill"),
        "decode_gpus": run.role_gpus.get("decode"),
        "stream_interval": run.stream_interval,
        "segment": run.segment,
        "outcome": printable(f"{run.status} (reused)" if run.origin else run.status),
        "origin": _shown(run.origin),
        "snapshot": _shown(run.snapshot),
        "accuracy_from": _shown(run.accuracy_from),
    }


def _accuracy_facts(run: Run) -> Row:
    summary = run.accuracy
    facts = {f"accuracy{part}": getattr(summary, name, None) for part, name in ACCURACY.items()}
    return facts | {"accuracy_dataset": _shown(summary.dataset if summary else None)}


def _point_facts(run: Run, point: BenchPoint) -> Row:
    own = run.workloads.get(point.index)
    known = run.foreign is None or point.input_range != [0, 0]
    return {
        "workload": printable(own) if own else _shown(run.labels.get("workload")),
        "point": printable(point.name),
        "client": printable(point.client),
        "concurrency": point.concurrency or None,
        "repeat": point.repeat + 1,
        "good_requests": None
        if point.goodput_share is None
        else point.goodput_share * point.num_prompts,
        "goodput_limits": goodput_limits(point),
        "isl": point.isl or None,
        "osl": point.osl or None,
        "range_definition": _shown(point.range_definition or None),
        "input_range": f"{point.input_range[0]}..{point.input_range[1]}" if known else None,
        "output_range": f"{point.output_range[0]}..{point.output_range[1]}" if known else None,
        "started_at": printable(point.started_at),
        "success_rate": point.completed / point.num_prompts if point.num_prompts else None,
        "mean_input_tokens": mean_length(point.total_input_tokens, point.completed),
        "mean_output_tokens": mean_length(point.total_output_tokens, point.completed),
        "external_kv_share": external_share(point),
        "cached_share": cached_share(point),
        "mean_in_flight": in_flight(point),
    }


def _missing(run: Run, point: BenchPoint) -> Row:
    """Facts that stand in the record and yet were not measured, or mean nothing there.

    E2E stands even where the first token was not seen; ITL only where chunks are tokens.
    """
    unmeasured = () if latency_is_measured(point) else ("ttft", "tpot", "itl")
    if run.stream_interval > 1:
        unmeasured = (*unmeasured, "itl")
    none: Row = {}
    if point.request_rate is None and point.source != "trace":
        none |= dict.fromkeys(OPEN_LOOP)
    if unmeasured:
        none |= {label: None for name, _, label in LATENCY_FACTS if name in unmeasured}
    if run.foreign is not None:
        none["seed"] = None
        if point.input_range == [0, 0]:
            none["range_ratio"] = None
    return none


def _judged(judged: Judge, point: BenchPoint) -> Row:
    run = judged.run
    limit = bottleneck(point, stations_of(run.path, point))
    judgement = judged.point(point, limit)
    notes = [*judgement.notes, *([f"reused, measured in {run.origin}"] if run.origin else [])]
    if run.accuracy_from:
        notes.append(f"accuracy of the same deployment, asked in {run.accuracy_from}")
    return {
        "verdict": judgement.verdict.value,
        "reasons": printable("; ".join(judgement.reasons)),
        "notes": printable("; ".join(notes)),
        "bottleneck": limit.word,
        "bottleneck_evidence": printable(limit.evidence),
    }


def _shown(text: str | None) -> str | None:
    return None if text is None else printable(text)
