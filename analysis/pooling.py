"""Repeats of a point within its run taken together: means with their 95 % interval.

Repeats of one run share its start, its nodes and its hour, so the interval (Student's t) tells how
far the measurements of this run lie apart, not how far another run would.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from analysis.grouping import counted, group
from analysis.metrics import BY_NAME, Metric
from analysis.point_rows import POINT
from analysis.words import worst

SHOWN = (
    "total_tps_per_gpu", "generation_tps_per_user", "ttft_median_ms", "ttft_p99_ms",
    "tpot_median_ms", "request_throughput", "goodput_share",
)  # fmt: skip
HALF = "+-95%"
ABOUT = f"{HALF}: half of the 95 % interval (t) of the mean left of it, over this run's repeats"


def pool(frame: pd.DataFrame, wanted: str | None) -> tuple[pd.DataFrame, tuple[Metric, ...], str]:
    """The table with one row per point of a run: means, half of the 95 % interval beside each.

    Over the rows that count; `wanted` is as for --agg. The verdict is the worst of them.
    """
    keys = [name for name in POINT if frame[name].notna().any()]
    told = [name for name in SHOWN if frame[name].notna().any()]
    made, metrics, note = group(
        frame, ",".join(keys), wanted or ",".join(f"{n}:mean,{n}:ci95" for n in told)
    )
    # Closed loops first, then by rate; within either by concurrency.
    order = sorted(keys, key=lambda name: name == "concurrency")
    made = made.sort_values(order, na_position="first", kind="stable").reset_index(drop=True)
    metrics = tuple(_beside(metric) for metric in metrics)
    verdicts = counted(frame)[0].groupby(keys, dropna=False)["verdict"].agg(worst)
    places = pd.MultiIndex.from_frame(made[keys]) if len(keys) > 1 else pd.Index(made[keys[0]])
    made["verdict"] = verdicts.reindex(places).to_numpy()
    about = ABOUT if any(metric.label == HALF for metric in metrics) else ""
    return made, (*metrics, BY_NAME["verdict"]), "; ".join(filter(None, (note, about)))


def _beside(metric: Metric) -> Metric:
    """Half an interval stands right of its mean, in the mean's unit."""
    return replace(metric, label=HALF, unit="") if metric.name.endswith("_ci95") else metric
