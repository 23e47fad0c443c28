"""Figures for papers: throughput against speed per user, and latency against concurrency.

matplotlib without its global state; nothing but the `plot` command imports this file. Series are
told apart by colour, mark and dash (analysis/palette.py), so grey print works.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis.drawn import drawn
from analysis.frontier import on_frontier
from analysis.palette import Style, style
from analysis.point_rows import means
from analysis.reference import Reference
from analysis.safetext import shorten

MARKS = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "down": "v",
    "pentagon": "p", "plus": "P",
}  # fmt: skip
DIVISORS = {
    "serving": ("total_tps_per_gpu", "total tok/s per serving GPU"),
    "allocated": ("total_tps_per_allocated_gpu", "total tok/s per allocated GPU"),
    "decode": ("output_tps_per_decode_gpu", "output tok/s per decode GPU"),
    "prefill": ("input_tps_per_prefill_gpu", "input tok/s per prefill GPU"),
}
STATISTICS = ("mean", "median", "p90", "p99")
GREY = "#767676"
WIDE_SPREAD = 20.0
"""Latencies further apart than this are drawn on a logarithmic axis."""
SETTINGS = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 9,
    "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7, "lines.linewidth": 1.3,
    "lines.markersize": 4.5, "axes.grid": True, "grid.linewidth": 0.4, "grid.color": "#d0d0d0",
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "savefig.dpi": 300, "figure.constrained_layout.use": True,
    "svg.fonttype": "path", "svg.hashsalt": "launcher", "pdf.fonttype": 42,
    "text.parse_math": False,
}  # fmt: skip
"""Text is outlines in SVG and embedded TrueType in PDF; the same input gives the same bytes. "$" in
a name begins no formula."""
MM = 1 / 25.4
LONGEST_LABEL = 48


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the user chose: figure width in mm, which column names a series, which statistic."""

    width_mm: float = 180.0
    by: str = "topology"
    statistic: str = "median"
    divisor: str = "serving"


def settings() -> matplotlib.RcParams:
    """The house's style, to be used as `with matplotlib.rc_context(settings())`."""
    return matplotlib.RcParams(SETTINGS)


def series_styles(frame: pd.DataFrame, by: str) -> dict[str, Style]:
    """A look for every series of the whole frame, so that it keeps it in each figure."""
    return {name: style(place) for place, name in enumerate(sorted(set(frame[by].dropna())))}


def pareto(frame: pd.DataFrame, look: Look, reference: Reference | None) -> Figure:
    """Generation tok/s per user against throughput per GPU, the frontier, the published curve."""
    column, words = DIVISORS[look.divisor]
    figure, axes = _figure(look, 0.62)
    if reference is not None and look.divisor in ("serving", "allocated"):
        _published(axes, reference, look.divisor == "allocated")
    rows = _drawable(frame, "generation_tps_per_user", column)
    _frontier(axes, means(rows, look.by, ("generation_tps_per_user", column)), column)
    _lines(axes, rows, look, "generation_tps_per_user", column, series_styles(frame, look.by))
    axes.set(xlabel="generation tok/s per user (1000 / median TPOT in ms)", ylabel=words)
    _from_zero(axes)
    _finish(figure, axes, frame)
    return figure


def latency(frame: pd.DataFrame, look: Look) -> Figure:
    """TTFT and TPOT side by side: against concurrency, or where all points are sent at a rate,
    against that. Of a mixture the closed loops."""
    figure = Figure(figsize=(look.width_mm * MM, look.width_mm * MM * 0.4))
    timed = frame["request_rate"].notna()
    by_rate = bool(timed[drawn(frame).mask].all())
    x = "request_rate" if by_rate else "concurrency"
    words = "request rate (requests/s)" if by_rate else "concurrency (requests in flight)"
    for place, kind in enumerate(("ttft", "tpot"), start=1):
        axes = figure.add_subplot(1, 2, place)
        column = f"{kind}_{look.statistic}_ms"
        rows = _drawable(frame[timed == by_rate], x, column)
        _lines(axes, rows, look, x, column, series_styles(frame, look.by))
        _load_axis(axes, rows[x])
        _latency_axis(axes, rows[column])
        axes.set(xlabel=words, ylabel=f"{kind.upper()} {look.statistic}, ms")
        _finish(figure, axes, frame, legend=place == 1)
    return figure


def watermark(axes: Axes, size: float = 22) -> None:
    """What nobody can crop away from the figures of a rehearsal; `size` in points."""
    axes.text(
        0.5, 0.5, "REHEARSAL\nnot a result", transform=axes.transAxes, ha="center", va="center",
        fontsize=size, fontweight="bold", color="#000000", alpha=0.13, rotation=12, zorder=5,
    )  # fmt: skip


def _figure(look: Look, ratio: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(look.width_mm * MM, look.width_mm * MM * ratio))
    return figure, figure.add_subplot()


def _drawable(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Rows that may be drawn and have every figure."""
    return frame[drawn(frame).mask].dropna(subset=list(columns))


def _lines(
    axes: Axes, rows: pd.DataFrame, look: Look, x: str, y: str, styles: dict[str, Style]
) -> None:
    """A line per run, in order of its load; hollow marks where the verdict is not VALID. Repeats
    of a point are one mark, their mean, with its 95 % interval as bars."""
    told: set[str] = set()
    for name, run in _runs(means(rows, look.by, (x, y)), look.by):
        known = styles[name]
        axes.plot(
            run[x], run[y], color=known.colour, dashes=known.dash or (None, None),
            label=None if name in told else _label(name), marker=MARKS[known.mark],
            markerfacecolor=known.colour,
        )  # fmt: skip
        repeated = run[(run[f"{x}_half"] > 0) | (run[f"{y}_half"] > 0)]
        if len(repeated):
            axes.errorbar(
                repeated[x], repeated[y], xerr=repeated[f"{x}_half"], yerr=repeated[f"{y}_half"],
                linestyle="none", ecolor=known.colour, elinewidth=0.8, capsize=1.5, zorder=2,
            )  # fmt: skip
        for part, face in ((run[~run["hollow"]], known.colour), (run[run["hollow"]], "white")):
            axes.plot(
                part[x], part[y], linestyle="none", marker=MARKS[known.mark], color=known.colour,
                markerfacecolor=face, zorder=3,
            )  # fmt: skip
        told.add(name)


def _label(name: str) -> str:
    """A series' name in the legend: short enough to leave room, and told whatever it begins with
    (what begins with "_" is left out by matplotlib)."""
    return shorten(f" {name}" if name.startswith("_") else name, LONGEST_LABEL)


def _runs(rows: pd.DataFrame, by: str) -> Iterator[tuple[str, pd.DataFrame]]:
    for (name, _, _), run in rows.groupby([by, "run", "open"], sort=True):
        yield str(name), run.sort_values(["request_rate", "concurrency"])


def _frontier(axes: Axes, rows: pd.DataFrame, column: str) -> None:
    places = list(zip(rows["generation_tps_per_user"], rows[column], strict=True))
    best = sorted(place for place, on in zip(places, on_frontier(places), strict=True) if on)
    if len(best) > 1:
        axes.plot(
            *zip(*best, strict=True), color="#b9bec6", linewidth=6, alpha=0.6, zorder=1,
            solid_capstyle="round", label="frontier",
        )  # fmt: skip


def _published(axes: Axes, reference: Reference, allocated: bool) -> None:
    """Grey marks with the reading error as bars; dotted lines join a shape's points."""
    for place, shape in enumerate(reference.shapes()):
        points = [point for point in reference.points if point.topology == shape.topology]
        scale = shape.serving_gpus / shape.allocated_gpus if allocated else 1.0
        axes.errorbar(
            [point.generation_tps_per_user for point in points],
            [point.total_tps_per_gpu * scale for point in points],
            xerr=reference.error_tps_per_user, yerr=reference.error_tps_per_gpu * scale,
            color=GREY, linestyle=":", linewidth=0.8, elinewidth=0.8, zorder=2,
            marker=MARKS[style(place).mark], markersize=3.2, markerfacecolor="white",
            markeredgewidth=0.8, label=f"published, {shape.prefill_endpoints}x2 prefill",
        )  # fmt: skip
    axes.annotate(
        f"published: {reference.header['source']}, read off the figure"
        f" (\u00b1{reference.error_tps_per_gpu:g} tok/s/GPU,"
        f" \u00b1{reference.error_tps_per_user:g} tok/s/user)",
        (0.01, 0.015), xycoords="axes fraction", fontsize=6, color=GREY,
    )  # fmt: skip


def _from_zero(axes: Axes) -> None:
    """Both axes from 0 to a little beyond the last mark."""
    lines = [np.asarray(line.get_xydata(), dtype=float) for line in axes.lines]
    points = np.vstack([np.empty((0, 2)), *lines])
    if len(points):
        right, top = points.max(axis=0)
        axes.set_xlim(0, 1.06 * float(right))
        axes.set_ylim(0, 1.08 * float(top))


def _load_axis(axes: Axes, values: pd.Series[float]) -> None:
    """Log2, with ticks at what was measured, as far as labels have room."""
    axes.set_xscale("log", base=2)
    ticks: list[float] = []
    for value in sorted({float(v) for v in values}):
        if not ticks or value / ticks[-1] > 1.3:
            ticks.append(value)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.tick_params(axis="x", labelrotation=45 if len(ticks) > 6 else 0)


def _latency_axis(axes: Axes, values: pd.Series[float]) -> None:
    positive = values[values > 0]
    if len(positive) and positive.max() / positive.min() > WIDE_SPREAD:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _finish(figure: Figure, axes: Axes, frame: pd.DataFrame, legend: bool = True) -> None:
    """Legend, rehearsal's mark, thousands apart."""
    if legend and axes.get_legend_handles_labels()[1]:
        axes.legend(ncols=2 if len(axes.get_legend_handles_labels()[1]) > 8 else 1)
    if axes.get_yscale() == "linear":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    if drawn(frame).rehearsal:
        watermark(axes)
        figure.suptitle("REHEARSAL: made-up figures, not a result", fontsize=9, fontweight="bold")
