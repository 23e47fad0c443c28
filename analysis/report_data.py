"""What the report page holds, as one JSON object: columns, rows, reference, provenance.

Columns are packed (a constant once, words by number) and figures are cut to DIGITS, so that
thousands of rows stay one page. Every text is made printable here, whatever wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import pandas as pd

from analysis import palette
from analysis.alike import kind, told_once
from analysis.drawn import (
    REHEARSAL_WORDS,
    drawn,
    not_comparable,
    reference_workload,
    workloads,
)
from analysis.intervals import T_95
from analysis.legend import DEFINITIONS, behind, endings
from analysis.load import Loaded
from analysis.metrics import BY_NAME, METRICS, Metric
from analysis.point_rows import point_names
from analysis.provenance import provenance, split
from analysis.reference import Reference, load_reference
from analysis.report_runs import run_parts
from analysis.run import Run
from analysis.safetext import printable
from analysis.tables import beside

DIGITS = 6
MAX_WARNINGS = 200
MAX_REASONS = 200
MAX_BEHIND = 100
FIRST_COLUMNS = (
    "verdict", "topology", "concurrency", "isl", "osl", "completed", "failed",
    "total_tps_per_gpu", "total_tps_per_allocated_gpu", "output_tps_per_decode_gpu",
    "input_tps_per_prefill_gpu", "generation_tps_per_user", "ttft_median_ms", "ttft_p99_ms",
    "tpot_median_ms", "tpot_p99_ms", "bottleneck", "accuracy", "outcome", "run",
)  # fmt: skip
LONG_TEXT = ("reasons", "notes", "bottleneck_evidence")

Json = dict[str, Any]


def report_data(loaded: Loaded, frame: pd.DataFrame) -> Json:
    """Everything that report.js reads."""
    frame = frame.reset_index(drop=True)
    reference, shown = load_reference(), drawn(frame)
    columns = [metric for metric in METRICS if frame[metric.name].notna().any()]
    first = [metric.name for metric in beside([BY_NAME[name] for name in FIRST_COLUMNS], frame)]
    return {
        "rows": len(frame),
        "runs": len(loaded.runs),
        "rehearsal": REHEARSAL_WORDS if shown.rehearsal else "",
        "columns": [_described(metric, first) for metric in columns],
        "values": {metric.name: pack(frame[metric.name], metric.kind) for metric in columns},
        "drawn": [int(flag) for flag in shown.mask],
        "workload": pack(workloads(frame), "text"),
        "reference": _reference(frame, reference),
        "reasons": list(_reasons(frame))[:MAX_REASONS],
        "provenance": _provenance(loaded),
        "warnings": [printable(text) for text in loaded.warnings[:MAX_WARNINGS]],
        "more_warnings": max(0, len(loaded.warnings) - MAX_WARNINGS),
        "unfinished": unfinished(loaded.runs),
        "behind": [printable(line) for line in islice(behind(loaded.runs, frame), MAX_BEHIND)],
        "endings": [printable(line) for line in endings(loaded.runs)][:MAX_WARNINGS],
        "definitions": list(DEFINITIONS),
        "palette": {
            "series": [asdict(palette.style(place)) for place in range(49)],
            "bottlenecks": palette.BOTTLENECKS,
            "phases": palette.PHASES,
        },
        "digits": DIGITS,
        "t95": list(T_95),
        **run_parts(loaded.runs),
    }


def unfinished(runs: Sequence[Run]) -> str:
    """How many runs did not complete and how many points they lack; empty where all did."""
    own = [run for run in runs if run.foreign is None]
    ended = [run for run in own if run.outcome is None or not run.ended_well]
    if not ended:
        return ""
    planned, lack = (
        sum(len(run.planned) for run in own),
        sum(max(0, len(run.planned) - len(run.points)) for run in ended),
    )
    word = f"{len(ended)} of {len(own)} runs did not complete"
    return f"{word}; {lack} of {planned} planned points are missing" if lack else word


def pack(values: pd.Series[Any], kind: str) -> Json:
    """A column in its shortest form: {"all"}, {"words", "codes"} (-1 missing) or {"values"}."""
    if kind == "text":
        codes, words = pd.factorize(values)
        if len(words) == 1 and (codes == 0).all():
            return {"all": printable(str(words[0]))}
        return {"words": [printable(str(word)) for word in words], "codes": codes.tolist()}
    figures = [_figure(value, kind) for value in values]
    if figures and all(figure == figures[0] for figure in figures):
        return {"all": figures[0]}
    return {"values": figures}


def _figure(value: Any, kind: str) -> float | int | None:
    if pd.isna(value) or not math.isfinite(value):
        return None
    if kind == "whole":
        return int(value)
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def _described(metric: Metric, first: Sequence[str]) -> Json:
    return {
        "name": metric.name,
        "label": metric.label,
        "unit": metric.unit,
        "doc": metric.doc,
        "source": metric.source,
        "better": metric.better,
        "kind": metric.kind,
        "digits": metric.digits,
        "place": first.index(metric.name) if metric.name in first else -1,
        "long": metric.name in LONG_TEXT,
    }


def _reference(frame: pd.DataFrame, reference: Reference) -> Json:
    on, _ = reference.frontier()
    return {
        "title": reference.header["title"],
        "source": reference.header["source"],
        "served_model": reference.served_model,
        "workload": reference_workload(reference),
        "read": reference.header["read"],
        "error": reference.header["error"].replace("+-", "\u00b1"),
        "error_y": reference.error_tps_per_gpu,
        "error_x": reference.error_tps_per_user,
        "not_comparable": not_comparable(frame, reference),
        "points": [
            {
                "topology": point.topology,
                "concurrency": point.concurrency,
                "x": point.generation_tps_per_user,
                "total_tps_per_gpu": point.total_tps_per_gpu,
                "total_tps_per_allocated_gpu": round(point.total_tps_per_allocated_gpu, 1),
                "approximate": point.approximate,
                "serving_gpus": point.serving_gpus,
                "allocated_gpus": point.allocated_gpus,
                "frontier": flag,
            }
            for point, flag in zip(reference.points, on, strict=True)
        ],
    }


def _reasons(frame: pd.DataFrame) -> Iterator[Json]:
    """Each verdict with its kinds of reason once, and where they hold: run -> its points."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    texts: dict[tuple[str, str], dict[str, None]] = {}
    rows = zip(frame["run"], frame["verdict"], frame["reasons"], point_names(frame), strict=True)
    for run, verdict, text, point in rows:
        if text:
            key = verdict, kind(text)
            texts.setdefault(key, {})[text] = None
            groups.setdefault(key, {}).setdefault(run, []).append(point)
    for key, where in sorted(groups.items(), key=lambda item: -_count(item[1])):
        yield {
            "verdict": key[0],
            "reason": told_once(list(texts[key])),
            "rows": _count(where),
            "where": [f"{run} {', '.join(points)}" for run, points in list(where.items())[:20]],
            "runs": len(where),
        }


def _count(where: dict[str, list[str]]) -> int:
    return sum(map(len, where.values()))


def _provenance(loaded: Loaded) -> Json:
    told = [provenance(run) for run in loaded.runs]
    same, names = split(told)
    rows: list[Sequence[str]] = [[pairs.get(name, "") for name in names] for pairs in told]
    return {"same": list(same.items()), "names": names, "rows": rows}
