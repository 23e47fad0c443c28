"""The time series of a run: what its engines and router said of themselves while it measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import BrokenFileError
from analysis.series_files import read_wide
from analysis.series_words import BY_SERIES_NAME, SERIES_METRICS, SeriesMetric
from jobs.record_files import read_object
from jobs.store import RunDir

COLUMNS: Mapping[str, Any] = {
    "t_s": "float64",
    "process": "string",
    "role": "string",
    "rank": "Int64",
    "point": "Int64",
    "metric": "string",
    "value": "float64",
}
KEYS = ["process", "part", "rank"]


def load_series(run_path: Path, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """A run's series in tidy long form; empty, with the same columns, where it has none.

    `t_s` seconds since the run's first look; `process` as in the plan, or router; `rank` global,
    NA for numbers of the whole process; `point` index of the point being measured, NA outside;
    `metric` one of SERIES_METRICS (only `metrics`, where given); no missing values.
    """
    kept = _kept(run_path)
    if kept is not None:
        chosen = kept if metrics is None else kept[kept["metric"].isin(metrics)]
        return chosen.reset_index(drop=True)
    wide = wide_series(run_path)
    wanted = SERIES_METRICS if metrics is None else [BY_SERIES_NAME[name] for name in metrics]
    names = [metric.name for metric in wanted if metric.name in wide.columns]
    if wide.empty or not names:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()})
    own = ["t_s", "process", "role", "rank", "point"]
    long = wide.melt(id_vars=own, value_vars=names, var_name="metric")
    long = long[long["value"].notna()]
    return long.astype(dict(COLUMNS)).reset_index(drop=True)


def _kept(run_path: Path) -> pd.DataFrame | None:
    """series.parquet, unless it is older than a line of series/, or none of ours."""
    store = RunDir(run_path)
    try:
        written = store.series_parquet.lstat().st_mtime_ns
        newest = max((file.stat().st_mtime_ns for file in store.series.glob("*.jsonl")), default=0)
        frame = pd.read_parquet(store.series_parquet) if written >= newest else None
    except (OSError, ValueError):
        return None
    if frame is None or list(frame.columns) != list(COLUMNS):
        return None
    return frame.astype(dict(COLUMNS))


def wide_series(run_path: Path) -> pd.DataFrame:
    """One row per look at one rank: t, t_s, process, role, rank, point, and every metric that was
    told, counters as rates. Empty where there is none."""
    raw = read_wide(run_path)
    if raw.empty:
        return raw
    columns: dict[str, pd.Series[float]] = {}
    groups = raw.groupby(KEYS, dropna=False, sort=False)
    passed = groups["t"].diff()
    for metric in SERIES_METRICS:
        needed = {metric.column, metric.per or metric.column}
        if needed <= set(raw.columns):
            columns[metric.name] = _values(metric, raw, groups, passed)
    own = raw[["t", "process", "role", "rank", "part"]].copy()
    own.insert(1, "t_s", own["t"] - own["t"].min())
    own["point"] = _points(own["t"], point_windows(run_path))
    own["process"] = _owners(own, run_path)
    return pd.concat([own, pd.DataFrame(columns, index=raw.index)], axis=1)


def _values(
    metric: SeriesMetric, raw: pd.DataFrame, groups: Any, passed: pd.Series[float]
) -> pd.Series[float]:
    """One metric by its kind. A counter that went back is another process's: missing."""
    column: pd.Series[float] = raw[metric.column]
    if metric.kind == "gauge":
        return column * metric.scale
    moved = _moved(groups, metric.column)
    if metric.kind == "count":
        return moved
    below = passed if metric.kind == "rate" else _moved(groups, metric.per)
    return moved / below.where(below > 0) * metric.scale


def _moved(groups: Any, column: str) -> pd.Series[float]:
    moved: pd.Series[float] = groups[column].diff()
    return moved.where(moved >= 0)


Window = tuple[int, float, float]
"""A point's index, and when it began and ended, in seconds since 1970."""


def point_windows(run_path: Path) -> list[Window]:
    """When each point was measured, warm-up included; points without usable times are left out."""
    found = []
    folder = RunDir(run_path).points
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            record = read_object(file)
            begun, ended = (
                datetime.fromisoformat(str(record.get(key))).timestamp()
                for key in ("started_at", "ended_at")
            )
        except (BrokenFileError, ValueError):
            continue
        index = record.get("index")
        if type(index) is int and begun <= ended:
            found.append((index, begun, ended))
    return found


def _points(times: pd.Series[float], windows: Sequence[Window]) -> pd.Series[Any]:
    at = times.to_numpy()
    found = np.full(len(at), -1, dtype=np.int64)
    for index, begun, ended in windows:
        found[(at >= begun) & (at <= ended)] = index
    return pd.Series(found, index=times.index, dtype="Int64").where(found >= 0)


def _owners(own: pd.DataFrame, run_path: Path) -> pd.Series[str]:
    """Ranks of a headless process are asked at their leader's address: they get their own name."""
    process: pd.Series[str] = own["process"].copy()
    for asked, rank, name in _headless(run_path):
        process[(own["process"] == asked) & (own["rank"] == rank)] = name
    return process


def _headless(run_path: Path) -> list[tuple[str, int, str]]:
    """(leader, rank, name) of every rank in a process without an address."""
    try:
        plan = read_object(RunDir(run_path).run_json).get("plan")
    except BrokenFileError:
        return []
    listed = plan.get("workers") if isinstance(plan, dict) else None
    workers = [w for w in listed if isinstance(w, dict)] if isinstance(listed, list) else []
    leaders = {
        (w.get("role"), w.get("endpoint")): str(w.get("name"))
        for w in workers
        if w.get("url") and w.get("leader")
    }
    found = []
    for worker in workers:
        leader = leaders.get((worker.get("role"), worker.get("endpoint")))
        ranks = worker.get("dp_ranks")
        if not worker.get("url") and leader and isinstance(ranks, list):
            found += [(leader, rank, str(worker.get("name"))) for rank in ranks]
    return found
