"""Where a point's requests stood: as its record has it, else by the run's series, else by the
engines' own statistics lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.series_files import read_wide
from analysis.startup import clocks
from analysis.stats_lines import read_stats
from jobs.records import BenchPoint, Stations
from jobs.stations import Look, sum_up
from jobs.store import RunDir

OWN = ("t", "process", "role", "rank", "part")


def stations_of(run_path: Path, point: BenchPoint) -> Stations | None:
    """None where nothing tells."""
    if point.stations is not None:
        return point.stations
    try:
        begun = datetime.fromisoformat(point.started_at).timestamp()
        ended = datetime.fromisoformat(point.ended_at).timestamp()
    except ValueError:
        return None
    source, looks = _looks(run_path)
    return sum_up((look for look in looks if begun <= look.t <= ended), source)


@lru_cache(maxsize=1)
def _looks(run_path: Path) -> tuple[str, Sequence[Look]]:
    """All looks of a run, read once for all its points."""
    if any(RunDir(run_path).series.glob("*.jsonl")):
        wide = read_wide(run_path)
        if not wide.empty:
            return "metrics", _of_series(wide)
    found: list[Look] = []
    if any(RunDir(run_path).logs.glob("*.log")):
        for clock in clocks(run_path):
            found += read_stats(clock.log, clock.process, clock.role, clock.year, clock.shift_s)
    return "log", found


def _of_series(wide: pd.DataFrame) -> list[Look]:
    words = [name for name in wide.columns if name not in OWN]
    told = wide[words].astype(object).where(wide[words].notna(), None)
    numbers: list[dict[Any, Any]] = told.to_dict("records")
    owners = zip(wide["t"], wide["process"], wide["role"], wide["rank"], strict=True)
    return [
        Look(float(t), process, role, None if pd.isna(rank) else int(rank), row)
        for (t, process, role, rank), row in zip(owners, numbers, strict=True)
    ]
