"""Rows that are one point: its name, what makes it one, and its repeats as one mark of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.intervals import t_interval

POINT = ("run", "topology", "concurrency", "request_rate", "isl", "osl", "workload")
"""What makes a point within a run; missing is a value."""


def point_names(frame: pd.DataFrame) -> pd.Series[str]:
    """What each row's point is called in its run; its concurrency where it has no name."""
    plain = "c" + frame["concurrency"].astype("string")
    return frame["point"].astype("string").fillna(plain).fillna("")


def means(rows: pd.DataFrame, by: str, columns: Sequence[str]) -> pd.DataFrame:
    """Rows to draw: one per point of a run, with `<column>_half` (0 without repeats), `hollow`
    where one of its rows is not VALID, and `open` where it has a request rate."""
    keys = [name for name in dict.fromkeys((by, *POINT)) if name in rows]
    made: list[dict[str, Any]] = []
    for values, own in rows.groupby(keys, dropna=False, sort=True):
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        for name in columns:
            told = [float(value) for value in own[name]]
            ends = t_interval(told)
            row[name] = sum(told) / len(told)
            row[f"{name}_half"] = (ends[1] - ends[0]) / 2 if ends else 0.0
        row["hollow"] = bool((own["verdict"] != "VALID").any())
        row["open"] = pd.notna(row["request_rate"])
        made.append(row)
    halves = [f"{name}_half" for name in columns]
    names = [*keys, *columns, *halves, "hollow", "open"]
    return pd.DataFrame(made, columns=list(dict.fromkeys(names)))
