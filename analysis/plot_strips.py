"""Figures of what held points back, how a run started and what its servers did."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.drawn import drawn
from analysis.palette import BOTTLENECKS, PHASES, style
from analysis.plots import MARKS, MM, Look, watermark

MAX_STRIPS = 40
UNKNOWN_PHASE = ("#bbbbbb", "")
LETTER_MM = 3.0
"""A bar narrower than this has no room for its letter."""


def bottleneck(frame: pd.DataFrame, look: Look) -> Figure | None:
    """A row per run, a column per load; None where no bottleneck is known. Of repeats the first."""
    rows = frame[drawn(frame).mask]
    if "bottleneck" not in rows or not rows["bottleneck"].fillna("").astype(bool).any():
        return None
    rows = rows.dropna(subset=["concurrency"]).drop_duplicates(
        ["run", "concurrency", "request_rate", "workload"]
    )
    loads = list(zip(rows["concurrency"], rows["request_rate"].fillna(0), strict=True))
    columns = sorted(set(loads))
    runs = list(dict.fromkeys(rows["run"]))[:MAX_STRIPS]
    height = (14 + 6 * len(runs)) * MM
    figure = Figure(figsize=(look.width_mm * MM, max(height, 28 * MM)))
    axes = figure.add_subplot()
    known: set[str] = set()
    for row, load in zip(rows.itertuples(index=False), loads, strict=True):
        if row.run not in runs:
            continue
        word = str(row.bottleneck) if row.bottleneck in BOTTLENECKS else ""
        known.add(word)
        colour, letter = BOTTLENECKS[word]
        x, y = columns.index(load), runs.index(row.run)
        axes.barh(y, 0.94, left=x - 0.47, height=0.88, color=colour)
        axes.text(x, y, letter, ha="center", va="center", fontsize=7, fontweight="bold",
                  color=_readable(colour))  # fmt: skip
    words = [f"{load:,}" + (f"\n{rate:g}/s" if rate else "") for load, rate in columns]
    axes.set_xticks(range(len(columns)), words)
    topologies = rows.drop_duplicates("run").set_index("run")["topology"]
    axes.set_yticks(range(len(runs)), [f"{topologies[run]} {run[-6:]}" for run in runs])
    axes.set(xlabel="concurrency (requests in flight)", ylim=(len(runs) - 0.4, -0.6))
    axes.grid(visible=False)
    handles = [
        Patch(color=BOTTLENECKS[word][0], label=f"{BOTTLENECKS[word][1]}  {word or 'unknown'}")
        for word in BOTTLENECKS
        if word in known
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    if drawn(frame).rehearsal:
        watermark(axes)
    return figure


def startup(name: str, workers: list[dict[str, Any]], look: Look, rehearsal: bool) -> Figure:
    """A bar per worker, its phases in order of time."""
    figure = Figure(figsize=(look.width_mm * MM, max(40, 18 + 4.2 * len(workers)) * MM))
    axes = figure.add_subplot()
    seen: set[str] = set()
    longest = max((end for w in workers for _, _, end in w["phases"]), default=0.0)
    for place, worker in enumerate(workers):
        for phase, start, end in worker["phases"]:
            seen.add(phase)
            colour, letter = PHASES.get(phase, UNKNOWN_PHASE)
            axes.barh(place, end - start, left=start, height=0.8, color=colour,
                      edgecolor="white", linewidth=0.3)  # fmt: skip
            if (end - start) * 0.8 * look.width_mm > LETTER_MM * longest:
                axes.text((start + end) / 2, place, letter, ha="center", va="center",
                          fontsize=6, color=_readable(colour))  # fmt: skip
    axes.set_yticks(range(len(workers)), [f"{w['process']} ({w['node']})" for w in workers])
    axes.set(xlabel="seconds since the workers were launched", ylim=(len(workers) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    axes.set_title(name, fontsize=7, loc="left")
    told = [phase for phase in PHASES if phase in seen] + sorted(seen - set(PHASES))
    looks = [(phase, *PHASES.get(phase, UNKNOWN_PHASE)) for phase in told]
    handles = [
        Patch(color=colour, label=f"{letter}  {phase.replace('_', ' ')}")
        for phase, colour, letter in looks
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=max(1, len(handles)))
    if rehearsal:
        watermark(axes, 15)
    return figure


def over_time(name: str, times: dict[str, Any], look: Look, rehearsal: bool) -> Figure:
    """The panels of analysis/report_runs.py, with the points' windows shaded."""
    panels = times["panels"]
    figure = Figure(figsize=(look.width_mm * MM, (len(panels) + 1) // 2 * 42 * MM + 8 * MM))
    roles = list(dict.fromkeys(line["role"] for panel in panels for line in panel["lines"]))
    for place, panel in enumerate(panels, start=1):
        axes = figure.add_subplot((len(panels) + 1) // 2, 2, place)
        for window in times["points"]:
            axes.axvspan(window["from"], window["to"], color="#e6e8eb", zorder=0)
        for line in panel["lines"]:
            known = style(roles.index(line["role"]))
            axes.plot(line["t"], line["v"], color=known.colour, marker=MARKS[known.mark],
                      markersize=1.6, linewidth=0.9, label=line["role"])  # fmt: skip
        axes.set(xlabel="s since the first sample", ylabel=panel["unit"], ylim=(0, None))
        axes.set_title(panel["name"], fontsize=8, loc="left")
        if place == 1:
            axes.legend()
        if rehearsal:
            watermark(axes, 13)
    figure.suptitle(name, fontsize=7)
    return figure


def _readable(colour: str) -> str:
    """Black or white, whichever stands out from #rrggbb (ITU-R BT.601 luma)."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
