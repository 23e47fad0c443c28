"""`python -m analysis series`: the time series of runs, as a file or as means per point."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.load import Loaded, each_once
from analysis.saving import frame_bytes, put, save
from analysis.series import load_series
from analysis.series_words import SERIES_METRICS
from jobs.store import RunDir

SHOWN = ("running", "waiting", "kv_usage", "prompt_tps", "generation_tps", "preemptions")


def main(argv: Sequence[str]) -> int:
    """1 when no run has series; 2 (AnalysisError) for a path or suffix that cannot be."""
    options = _parser().parse_args(argv)
    found = Loaded()
    if options.keep:
        for run in each_once(options.runs, found):
            keep(run)
        return 0
    frame, missing = series_frame(each_once(options.runs, found))
    return put(frame, series_text, options.out, [*found.warnings, *missing])


def keep(run: Path) -> None:
    """series.parquet in the run's directory, where it has series."""
    frame = load_series(run)
    if not frame.empty:
        save(RunDir(run).series_parquet, frame_bytes(frame, RunDir(run).series_parquet))


def series_frame(runs: Sequence[Path]) -> tuple[pd.DataFrame, list[str]]:
    """All runs' series, with `run` (the folder's name) in front, and a warning for each that has
    none."""
    frames, warnings = [], []
    for run in runs:
        frame = load_series(run)
        if frame.empty:
            warnings.append(f"{run}: has no series (an older run, or cluster.sample_s=0)")
        frame.insert(0, "run", pd.Series(run.name, index=frame.index, dtype="string"))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True), warnings


def series_text(frame: pd.DataFrame) -> str:
    """Per run, point and role: requests and tokens of all its ranks together, and the mean KV
    usage; means over the point's looks."""
    inside = frame[frame["point"].notna() & frame["metric"].isin(SHOWN) & frame["rank"].notna()]
    if inside.empty:
        return "no look fell into a point\n"
    keys = ["run", "point", "role"]
    means = inside.groupby([*keys, "process", "rank", "metric"])["value"].mean().reset_index()
    table = means.pivot_table(index=keys, columns="metric", values="value", aggfunc="sum")
    usage = means[means["metric"] == "kv_usage"].groupby(keys)["value"].mean()
    if not usage.empty:
        table["kv_usage"] = usage
    table = table[[name for name in SHOWN if name in table.columns]]
    return f"{table.round(3).to_string()}\n{_units()}"


def _units() -> str:
    named = [metric for metric in SERIES_METRICS if metric.name in SHOWN]
    return "".join(f"{metric.name} [{metric.unit}]: {metric.doc}\n" for metric in named)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis series", description=__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run directory, or one of runs"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="every look, tidy: .parquet or .csv"
    )
    parser.add_argument(
        "--keep", action="store_true", help="write series.parquet into each run's directory"
    )
    return parser
