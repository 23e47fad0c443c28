"""Run by run for the report: how its workers started, and what its servers did over time.

Series are thinned to at most STEPS buckets: within one a rank's samples are averaged, then ranks
of a role are summed (or the fullest is taken), as PANELS says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.run import Run
from analysis.safetext import printable
from analysis.series import load_series
from analysis.startup import load_startup

STEPS = 240
MAX_SERIES_RUNS = 24
MAX_STARTUP_RUNS = 200
WORDS = "requests and tokens are summed over the ranks of a role, KV use is the fullest rank's."

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One small plot of a metric of the series; `how` ranks of a role are taken together."""

    metric: str
    name: str
    unit: str
    how: str = "sum"
    scale: float = 1.0
    digits: int = 0


PANELS = (
    Panel(metric="running", name="Requests running", unit="requests", digits=1),
    Panel(metric="waiting", name="Requests waiting", unit="requests", digits=1),
    Panel(metric="kv_usage", name="KV blocks in use, fullest rank", unit="%", how="max",
          scale=100.0, digits=1),
    Panel(metric="prompt_tps", name="Prompt tokens", unit="tok/s"),
    Panel(metric="generation_tps", name="Generated tokens", unit="tok/s"),
    Panel(metric="transferring", name="KV transfers under way", unit="transfers", digits=2),
)  # fmt: skip


def run_parts(runs: Sequence[Run]) -> Json:
    """`startup` and `times` by run id (left out where no run has any), and what was left out."""
    startup = {printable(run.run_id): startup_of(run) for run in runs[:MAX_STARTUP_RUNS]}
    times = {printable(run.run_id): times_of(run) for run in runs[:MAX_SERIES_RUNS]}
    found: Json = {"times_words": WORDS}
    if any(startup.values()):
        found["startup"] = {name: workers for name, workers in startup.items() if workers}
    if any(times.values()):
        found["times"] = {name: part for name, part in times.items() if part}
    if len(runs) > MAX_SERIES_RUNS:
        found["times_left_out"] = (
            f"time series are in this page for the first {MAX_SERIES_RUNS} of {len(runs)} runs:"
            " make a report of fewer runs to see the others"
        )
    return found


def startup_of(run: Run) -> list[Json]:
    """A worker each, in the plan's order, with the phases whose bounds are known."""
    frame = load_startup(run.path).dropna(subset=["start_s", "end_s"])
    workers: dict[str, Json] = {}
    for row in frame.itertuples(index=False):
        worker = workers.setdefault(
            str(row.process),
            {
                "process": printable(str(row.process)),
                "role": printable(str(row.role)),
                "node": printable(str(row.node)),
                "phases": [],
            },
        )
        bounds = [round(float(str(t)), 3) for t in (row.start_s, row.end_s)]
        worker["phases"].append([printable(str(row.phase)), *bounds])
    return list(workers.values())


def times_of(run: Run) -> Json | None:
    """Every panel that has values; None where the run has no series."""
    frame = load_series(run.path, [panel.metric for panel in PANELS])
    if frame.empty:
        return None
    step_s = _step_s(frame)
    panels = [part for panel in PANELS if (part := _panel(frame, panel, step_s))["lines"]]
    names = {point.index: point.name for point in run.points}
    spans = frame.dropna(subset=["point"]).groupby("point")["t_s"].agg(["min", "max"])
    return {
        "step_s": round(step_s, 3),
        "panels": panels,
        "points": [
            {
                "name": printable(names.get(int(str(index)), str(index))),
                "from": round(float(first), 2),
                "to": round(float(last), 2),
            }
            for index, first, last in spans.itertuples()
        ],
    }


def _step_s(frame: pd.DataFrame) -> float:
    """The width of a bucket: two looks at a rank at least, so that none is without samples."""
    span = float(frame["t_s"].max() - frame["t_s"].min())
    own = ["metric", "process", "rank"]
    looks = frame.groupby(own, dropna=False, observed=True)["t_s"].diff().median()
    return max(2 * (0.0 if pd.isna(looks) else float(looks)), span / STEPS, 0.001)


def _panel(frame: pd.DataFrame, panel: Panel, step_s: float) -> Json:
    chosen = frame[frame["metric"] == panel.metric]
    chosen = chosen.assign(bucket=(chosen["t_s"] // step_s).astype("int64"))
    ranks = chosen.groupby(["role", "process", "rank", "bucket"], dropna=False)["value"].mean()
    roles = ranks.groupby(level=["role", "bucket"]).agg(panel.how) * panel.scale
    lines = []
    for role, values in roles.groupby(level="role"):
        buckets = values.index.get_level_values("bucket")
        lines.append(
            {
                "role": printable(str(role)),
                "t": [round((int(bucket) + 0.5) * step_s, 2) for bucket in buckets],
                "v": [float(f"{value:.4g}") for value in values],
            }
        )
    return {"name": panel.name, "unit": panel.unit, "digits": panel.digits, "lines": lines}
