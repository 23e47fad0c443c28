"""Runs laid out as one tidy frame: a row per point, the facts that columns are computed from.

Facts are what records say, untouched, except that text is made printable and that latencies which
were not measured are missing already.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.bottleneck import bottleneck
from analysis.load import Loaded
from analysis.point import external_share, latency_is_measured, mean_length
from analysis.run import Run
from analysis.safetext import printable
from analysis.stations import stations_of
from analysis.verdict import judge
from jobs.records import BenchPoint, Latency

LATENCIES = ("ttft", "tpot", "itl", "e2el")
STATISTICS = ("mean", "median", "p90", "p99")
LABELS = ("topology", "model", "flags", "workload", "cluster", "router")
COUNTERS = ("kv_bytes", "kv_transfers", "kv_failed", "kv_expired", "preemptions")

Row = dict[str, Any]


def tidy(loaded: Loaded) -> pd.DataFrame:
    """One row per point, in the order the runs were given."""
    rows = []
    for run in loaded.runs:
        shared = _run_facts(run) | _accuracy_facts(run)
        rows += [shared | _point_facts(run, point) | _latencies(run, point)
                 | _judged(run, point) | _limited(run, point)
                 for point in run.points]  # fmt: skip
    return pd.DataFrame(rows, columns=None if rows else ["run"], dtype=object)


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
    if summary is None:
        return {}
    return {
        "accuracy_dataset": printable(summary.dataset),
        "accuracy": summary.mean,
        "accuracy_low": summary.low,
        "accuracy_high": summary.high,
        "accuracy_t_low": summary.t_low,
        "accuracy_t_high": summary.t_high,
        "accuracy_repeats": summary.repeats,
        "accuracy_answers": summary.answered,
        "accuracy_invalid_rate": summary.invalid_rate,
        "accuracy_transport_failures": summary.transport_failures,
    }


def _point_facts(run: Run, point: BenchPoint) -> Row:
    counters = {name: getattr(point.server, name) for name in COUNTERS}
    own = run.workloads.get(point.index)
    workload = {"workload": printable(own)} if own else {}
    return (
        counters
        | workload
        | {
            "point": printable(point.name),
            "client": printable(point.client),
            "concurrency": point.concurrency,
            "isl": point.isl,
            "osl": point.osl,
            "range_definition": printable(point.range_definition),
            "range_ratio": point.range_ratio,
            "input_range": f"{point.input_range[0]}..{point.input_range[1]}",
            "output_range": f"{point.output_range[0]}..{point.output_range[1]}",
            "seed": point.seed,
            "started_at": printable(point.started_at),
            "num_prompts": point.num_prompts,
            "completed": point.completed,
            "failed": point.failed,
            "duration_s": point.duration_s,
            "input_tokens": point.total_input_tokens,
            "output_tokens": point.total_output_tokens,
            "mean_input_tokens": mean_length(point.total_input_tokens, point.completed),
            "mean_output_tokens": mean_length(point.total_output_tokens, point.completed),
            "external_kv_share": external_share(point),
        }
    )


def _latencies(run: Run, point: BenchPoint) -> Row:
    """E2E stands even where the first token was not seen; ITL only where chunks are tokens."""
    measured = latency_is_measured(point)
    empty = Latency()
    kept = {
        "ttft": point.ttft_ms if measured else empty,
        "tpot": point.tpot_ms if measured else empty,
        "itl": point.itl_ms if measured and run.stream_interval == 1 else empty,
        "e2el": point.e2el_ms,
    }
    return {
        f"{name}_{statistic}_ms": getattr(latency, statistic)
        for name, latency in kept.items()
        for statistic in STATISTICS
    }


def _judged(run: Run, point: BenchPoint) -> Row:
    judgement = judge(run, point)
    notes = [*judgement.notes, *([f"reused, measured in {run.origin}"] if run.origin else [])]
    if run.accuracy_from:
        notes.append(f"accuracy of the same deployment, asked in {run.accuracy_from}")
    return {
        "verdict": judgement.verdict.value,
        "reasons": printable("; ".join(judgement.reasons)),
        "notes": printable("; ".join(notes)),
    }


def _limited(run: Run, point: BenchPoint) -> Row:
    found = bottleneck(point, stations_of(run.path, point))
    return {"bottleneck": found.word, "bottleneck_evidence": printable(found.evidence)}


def _shown(text: str | None) -> str | None:
    return None if text is None else printable(text)
