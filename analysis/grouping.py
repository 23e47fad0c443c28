"""`--group`, `--agg`, `--pivot`: many rows to few, over the rows that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError
from analysis.intervals import t_interval
from analysis.metrics import DTYPES, Metric
from analysis.tables import find
from analysis.usable import left_out, usable
from analysis.words import Verdict

DEFAULTS = ("total_tps_per_gpu", "generation_tps_per_user", "ttft_median_ms", "tpot_median_ms")
MOST_PIVOT_COLUMNS = 60


def _half_interval(values: pd.Series[float]) -> float:
    """Half of the 95 % t interval of the mean; missing below two values."""
    ends = t_interval([float(value) for value in values.dropna()])
    return (ends[1] - ends[0]) / 2 if ends else float("nan")


def _name(how: str) -> Callable[[pd.Series[float]], float] | str:
    return _half_interval if how == "ci95" else how


AGGREGATES = ("mean", "median", "min", "max", "std", "sum", "count", "best", "ci95")


def group(
    frame: pd.DataFrame, keys: str, wanted: str | None
) -> tuple[pd.DataFrame, tuple[Metric, ...], str]:
    """One row per combination of the key columns; its columns, and what was left out, in words.

    `wanted` is "column:how,column:how"; by default the mean of DEFAULTS.
    """
    names = [find(name).name for name in _split(keys, "--group")]
    asked = [_aggregate(word) for word in _split(wanted, "--agg")] if wanted else [
        (find(name), "mean") for name in DEFAULTS
    ]  # fmt: skip
    kept, note = counted(frame)
    parts = kept.groupby(names, dropna=False, sort=True)
    columns: dict[str, pd.Series[Any]] = {"rows": parts.size().astype("Int64")}
    metrics = [*(find(name) for name in names), _rows_metric()]
    for metric, how in asked:
        shown = _shown(metric, how)
        method = _best_name(metric) if how == "best" else _name(how)
        columns[shown.name] = parts[metric.name].agg(method).astype(DTYPES[shown.kind])
        metrics.append(shown)
    return pd.DataFrame(columns).reset_index(), tuple(metrics), note


def pivot(frame: pd.DataFrame, words: str) -> tuple[pd.DataFrame, tuple[Metric, ...], str]:
    """ "INDEX:COLUMN:VALUE[:how]": a row per index value, a column per column value."""
    parts = words.split(":")
    if len(parts) not in (3, 4):
        raise AnalysisError(
            f"--pivot {words!r:.80}: allowed is INDEX:COLUMN:VALUE or INDEX:COLUMN:VALUE:HOW, as in"
            " concurrency:topology:total_tps_per_gpu"
        )
    index, across = find(parts[0]), find(parts[1])
    if index == across:
        raise AnalysisError(f"--pivot {words!r:.80}: rows and columns are both {index.name}")
    value, how = _aggregate(":".join(parts[2:]) if len(parts) == 4 else f"{parts[2]}:mean")
    kept, note = counted(frame)
    kinds = sorted(kept[across.name].dropna().unique(), key=lambda each: (str(type(each)), each))
    if len(kinds) > MOST_PIVOT_COLUMNS:
        raise AnalysisError(
            f"--pivot: {across.name} has {len(kinds)} values, at most {MOST_PIVOT_COLUMNS} make"
            " columns: filter first"
        )
    method = _best_name(value) if how == "best" else _name(how)
    cells = kept.groupby([index.name, across.name], dropna=True)[value.name].agg(method)
    wide = cells.unstack(across.name) if len(cells) else pd.DataFrame(columns=kinds)
    shown = _shown(value, how)
    columns = {index.name: pd.Series(wide.index, dtype=DTYPES[index.kind])}
    metrics = [index]
    for kind in kinds:
        name = f"{across.name}={kind}"
        columns[name] = pd.Series(wide[kind].to_numpy(), dtype=DTYPES[shown.kind])
        metrics.append(replace(shown, name=name, label=f"{kind}"))
    told = f"cells: {how} of {value.name} ({value.doc})"
    absent = int(kept[[index.name, across.name]].isna().any(axis=1).sum())
    lost = f"{absent} without {index.name} or {across.name} left out" if absent else ""
    return pd.DataFrame(columns), tuple(metrics), "; ".join(filter(None, [told, note, lost]))


def counted(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows that count; made-up ones only where there is nothing else, and then it says so."""
    only_made_up = len(frame) > 0 and (frame["verdict"] == Verdict.REHEARSAL.value).all()
    note = left_out(frame, rehearsal=bool(only_made_up))
    if only_made_up:
        note = "REHEARSAL: all rows are made up, never a result"
    return frame[usable(frame, rehearsal=bool(only_made_up))], note


def _split(words: str | None, option: str) -> list[str]:
    found = [word.strip() for word in (words or "").split(",") if word.strip()]
    if not found:
        raise AnalysisError(f"{option}: no name given; `python -m analysis columns` lists them")
    return list(dict.fromkeys(found))


def _aggregate(word: str) -> tuple[Metric, str]:
    """ "column:how", mean where nothing is said."""
    name, _, how = word.partition(":")
    metric, how = find(name), how or "mean"
    if how not in AGGREGATES:
        raise AnalysisError(f"--agg {word!r:.80}: how is one of {', '.join(AGGREGATES)}")
    if metric.kind == "text" and how != "count":
        raise AnalysisError(f"--agg {word!r:.80}: {name} is text, only count goes with it")
    if how == "best" and not metric.better:
        raise AnalysisError(f"--agg {word!r:.80}: of {name} neither side is better")
    return metric, how


def _best_name(metric: Metric) -> str:
    return "max" if metric.better == "higher" else "min"


def _shown(metric: Metric, how: str) -> Metric:
    kind = metric.kind if how in ("min", "max", "best", "sum") and metric.kind != "text" else "real"
    kind = "whole" if how == "count" else kind
    label = metric.label if how == "mean" else f"{metric.label} {how}"
    unit = "" if how == "count" else metric.unit
    return replace(
        metric, name=f"{metric.name}_{how}", label=label, unit=unit, kind=kind,
        doc=f"{how} of {metric.name} over the rows of the group that count",
    )  # fmt: skip


def _rows_metric() -> Metric:
    return replace(
        find("completed"), name="rows", label="rows", unit="", better="",
        doc="rows of the group that count",
    )  # fmt: skip


def chosen(columns: Sequence[Metric], names: str | None) -> tuple[Metric, ...]:
    """The result's columns that were asked for by name ("a,b"), or all."""
    if names is None:
        return tuple(columns)
    by_name = {metric.name: metric for metric in columns}
    wanted = _split(names, "--columns")
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise AnalysisError(
            f"no column {unknown[0]!r:.80} in the grouped table; it has {', '.join(by_name)}"
        )
    return tuple(by_name[name] for name in wanted)
