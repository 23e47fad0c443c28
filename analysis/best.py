"""The figures a reader looks for first, each with the row that has it and that row's verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.drawn import drawn
from analysis.metrics import BY_NAME
from analysis.point_rows import POINT, point_names
from analysis.words import worst

HEADLINES = (
    ("most total per serving GPU", "total_tps_per_gpu"),
    ("most total per allocated GPU", "total_tps_per_allocated_gpu"),
    ("most per user", "generation_tps_per_user"),
    ("shortest median TTFT", "ttft_median_ms"),
)
MADE_UP = "REHEARSAL, not a result"


def headlines(frame: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """(what, figure with its unit, whose). Only rows that may be compared stand for a best; one
    card says so where there is none.

    Repeats of a point count together, with their mean: the best single repeat is the luckiest.
    """
    shown = drawn(frame)
    rows = frame[shown.mask]
    if rows.empty:
        yield ("no best row", "-", "no row may be quoted: see the verdicts")
        return
    keys = [name for name in POINT if name in rows]
    for label, name in HEADLINES:
        told = rows[rows[name].notna()]
        if told.empty:
            continue
        metric = BY_NAME[name]
        own = told.groupby(keys, dropna=False)
        means = own[name].transform("mean")
        place = int(means.argmax() if metric.better == "higher" else means.argmin())
        numbers = own.ngroup()
        alike = told[numbers == numbers.iloc[place]]
        verdict = MADE_UP if shown.rehearsal else worst(alike["verdict"])
        many = f", mean of {len(alike)} repeats" if len(alike) > 1 else ""
        point = f"{alike['topology'].iloc[0]}, {point_names(alike).iloc[0]}{many}"
        yield label, f"{means.iloc[place]:,.{metric.digits}f} {metric.unit}", f"{point}: {verdict}"
