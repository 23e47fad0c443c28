"""The figures a reader looks for first, each with the row that has it and that row's verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.drawn import drawn
from analysis.metrics import BY_NAME
from analysis.point_rows import point_names

HEADLINES = (
    ("most total per serving GPU", "total_tps_per_gpu"),
    ("most total per allocated GPU", "total_tps_per_allocated_gpu"),
    ("most per user", "generation_tps_per_user"),
    ("shortest median TTFT", "ttft_median_ms"),
)
MADE_UP = "REHEARSAL, not a result"


def headlines(frame: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """(what, figure with its unit, whose). Only rows that may be compared stand for a best; one
    card says so where there is none."""
    shown = drawn(frame)
    rows = frame[shown.mask]
    if rows.empty:
        yield ("no best row", "-", "no row may be quoted: see the verdicts")
        return
    for label, name in HEADLINES:
        values = rows[name].dropna()
        if values.empty:
            continue
        metric = BY_NAME[name]
        place = int(values.argmax() if metric.better == "higher" else values.argmin())
        row = rows.loc[values.index].iloc[place]
        verdict = MADE_UP if shown.rehearsal else row["verdict"]
        figure = f"{values.iloc[place]:,.{metric.digits}f} {metric.unit}"
        name = point_names(rows.loc[values.index]).iloc[place]
        yield label, figure, f"{row['topology']}, {name}: {verdict}"
