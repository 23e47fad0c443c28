"""A side of a comparison: run directories, other tools' results, or a table that was saved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError, BrokenFileError
from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import DTYPES, METRICS, compute_all
from analysis.provenance import provenance
from analysis.run import Run
from analysis.safetext import printable, shorten
from jobs.record_files import read_object
from jobs.store import RunDir

NEEDED = ("concurrency", "verdict", "total_tps_per_gpu")
OF_THE_RUN = frozenset({"run", "created", "outcome", "snapshot", "sweep", "overrides"})
IN_TABLES = (
    "topology", "model", "engine", "served_model", "flags", "workload", "router", "cluster",
    "client", "serving_gpus", "allocated_gpus", "prefill_gpus", "decode_gpus", "stream_interval",
    "segment", "range_definition", "range_ratio", "seed", "num_prompts",
)  # fmt: skip
LONGEST = 120
CONFIG = "config "
NO_MATTER = tuple(
    f"{CONFIG}{key}"
    for key in (
        "cluster.results_dir",
        "wait",
        "check",
        "allow_dirty",
        "sweep.",
        "workload.vllm_bench_json",
    )
)
"""Keys that say where results lie and how one waits for them, not what was measured."""
OF_THE_POINTS = ("seed", "num_prompts")
"""What follows from the list of points where the configuration itself is told."""
HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b")
"""Of a hash the beginning tells that it differs."""


@dataclass(kw_only=True)
class Side:
    """Rows in the table's columns, and every setting with the values it has on this side."""

    frame: pd.DataFrame
    settings: dict[str, set[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_side(path: Path) -> Side:
    """AnalysisError for what is none of the three."""
    if path.suffix in (".parquet", ".csv"):
        frame = saved(path)
        return Side(frame=frame, settings=_of_table(frame))
    loaded = load([path])
    frame = compute_all(tidy(loaded))
    settings = _of_table(frame)
    for run in loaded.runs:
        for name, text in _of_run(run):
            settings.setdefault(name, set()).add(text)
    return Side(frame=frame, settings=settings, warnings=loaded.warnings)


def saved(path: Path) -> pd.DataFrame:
    """A table written with --out; columns it does not have are missing values."""
    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: cannot be read as a saved table: {error}") from error
    absent = [name for name in NEEDED if name not in frame]
    if absent:
        raise AnalysisError(
            f"{path}: no table of `python -m analysis table --out`: it has no {', '.join(absent)}"
        )
    columns = {}
    for metric in METRICS:
        values = frame.get(metric.name, pd.Series(None, index=frame.index, dtype=object))
        try:
            columns[metric.name] = values.astype(DTYPES[metric.kind])
        except (ValueError, TypeError) as error:
            raise AnalysisError(f"{path}: column {metric.name}: {error}") from error
    return pd.DataFrame(columns, index=frame.index)


def differing(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Settings that are not the same on both sides: name, values of a, values of b."""
    names = sorted({*a.settings, *b.settings}, key=lambda name: (name.startswith(CONFIG), name))
    if all(f"{CONFIG}workload.seed" in side.settings for side in (a, b)):
        names = [name for name in names if name not in OF_THE_POINTS]
    pairs = [(name, a.settings.get(name, set()), b.settings.get(name, set())) for name in names]
    return [(name, _text(left), _text(right)) for name, left, right in pairs if left != right]


def _text(values: set[str]) -> str:
    told = ", ".join(HASH.sub(r"\1..", value) for value in sorted(values))
    return shorten(told, LONGEST) if values else "(not told)"


def _of_table(frame: pd.DataFrame) -> dict[str, set[str]]:
    told = {name: {str(value) for value in frame[name].dropna().unique()} for name in IN_TABLES}
    return {name: values for name, values in told.items() if values}


def _of_run(run: Run) -> list[tuple[str, str]]:
    """Versions and configuration, key by key."""
    pairs = [(name, text) for name, text in provenance(run).items() if name not in OF_THE_RUN]
    try:
        config = read_object(RunDir(run.path).run_json).get("config")
    except BrokenFileError:
        config = None
    told = [(f"{CONFIG}{name}", printable(text)) for name, text in _flat(config, "")]
    return pairs + [pair for pair in told if not pair[0].startswith(NO_MATTER)]


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        inner = ((key, each) for key, each in value.items() if key not in ("name", "dry_run"))
        return [pair for key, each in inner for pair in _flat(each, f"{name}.{key}".lstrip("."))]
    return [(name, str(value))] if name else []
