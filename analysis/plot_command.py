"""`python -m analysis plot RUN... --out DIR`: figures for papers, one file each."""

from __future__ import annotations

import argparse
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from analysis.drawn import drawn, not_comparable, workloads
from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.load import Loaded, load
from analysis.metrics import compute_all
from analysis.plot_strips import bottleneck, over_time, startup
from analysis.plots import DIVISORS, STATISTICS, Look, latency, pareto, settings
from analysis.reference import Reference, load_reference
from analysis.report_runs import startup_of, times_of
from analysis.saving import save, warn
from analysis.usable import left_out

FORMATS = ("png", "svg", "pdf")
SERIES = ("topology", "flags", "model", "engine", "client", "run")
NO_DATE = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
MAX_RUN_FIGURES = 20
NARROWEST_MM, WIDEST_MM = 60.0, 400.0


def main(argv: Sequence[str]) -> int:
    """0 when something was drawn; AnalysisError where no row may be."""
    options = _parser().parse_args(argv)
    if not NARROWEST_MM <= options.width_mm <= WIDEST_MM:
        raise AnalysisError(
            f"--width-mm {options.width_mm:g}: {NARROWEST_MM:g} to {WIDEST_MM:g} are possible;"
            " 88 is one column of a paper, 180 are two"
        )
    loaded = load([Path(path) for path in options.runs])
    frame = compute_all(tidy(loaded)).reset_index(drop=True)
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    if frame.empty or not drawn(frame).mask.any():
        raise AnalysisError(
            f"no point may be drawn (runs: {len(loaded.runs)}, points: {len(frame)})"
            f"{': ' + told if (told := left_out(frame)) else ''};"
            " `python -m analysis table` has the reasons"
        )
    _make(options.out)
    with matplotlib.rc_context(settings()):
        for name, figure in _figures(options, loaded, frame):
            target = options.out / f"{name}.{options.format}"
            save(target, _rendered(figure, options.format))
            sys.stdout.write(f"{target}\n")
    if told := left_out(frame, drawn(frame).rehearsal):
        warn(told)
    return 0


def _figures(
    options: argparse.Namespace, loaded: Loaded, frame: pd.DataFrame
) -> Iterator[tuple[str, Figure]]:
    """Every figure with its file's name; one set per load, so that no two loads share axes."""
    look = Look(
        width_mm=options.width_mm, by=options.by or _by(frame), statistic=options.statistic,
        divisor=options.per,
    )  # fmt: skip
    loads = workloads(frame)
    several = loads[drawn(frame).mask].nunique() > 1
    for load_words, part in frame.groupby(loads, sort=False):
        if not drawn(part).mask.any() or drawn(part).rehearsal != drawn(frame).rehearsal:
            continue
        end = f"-{_slug(str(load_words))}" if several else ""
        yield f"pareto{end}", pareto(part, look, _reference(options.reference, part))
        yield f"latency{end}", latency(part, look)
        strip = bottleneck(part, look)
        if strip is not None:
            yield f"bottleneck{end}", strip
    yield from _run_figures(loaded, look, drawn(frame).rehearsal)


def _run_figures(loaded: Loaded, look: Look, rehearsal: bool) -> Iterator[tuple[str, Figure]]:
    """Start-up and time series, run by run."""
    if len(loaded.runs) > MAX_RUN_FIGURES:
        warn(f"start-up and time series: the first {MAX_RUN_FIGURES} of {len(loaded.runs)} runs")
    for run in loaded.runs[:MAX_RUN_FIGURES]:
        workers, times = startup_of(run), times_of(run)
        made_up = rehearsal or run.rehearsal
        if workers:
            yield f"startup-{_slug(run.run_id)}", startup(run.run_id, workers, look, made_up)
        if times is not None:
            yield f"series-{_slug(run.run_id)}", over_time(run.run_id, times, look, made_up)


def _reference(wanted: str, frame: pd.DataFrame) -> Reference | None:
    """`auto`: only where it says something about these rows; otherwise a word why not."""
    reference = load_reference()
    why = not_comparable(frame, reference)
    if wanted == "never" or (wanted == "auto" and why):
        if wanted == "auto":
            warn(f"the published reference is not drawn: {why} (--reference always draws it)")
        return None
    if why:
        warn(f"warning: the published reference is not comparable: {why}")
    return reference


def _by(frame: pd.DataFrame) -> str:
    """The first column that tells rows apart, topology first."""
    rows = frame[drawn(frame).mask]
    varying = [name for name in SERIES if rows[name].nunique() > 1]
    return varying[0] if varying else "topology"


def _rendered(figure: Figure, form: str) -> bytes:
    stream = io.BytesIO()
    # A sign that no font has is drawn as a box; the name is told by the table.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", module="analysis")
        figure.savefig(stream, format=form, metadata=NO_DATE[form])
    return stream.getvalue()


def _slug(text: str) -> str:
    """`text` as a file name, whatever a run is called."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:100] or "unnamed"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalysisError(f"--out {folder}: cannot be made: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis plot", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, or a sweep's")
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("plots"))
    parser.add_argument("--format", choices=FORMATS, default="png")
    parser.add_argument("--width-mm", type=float, default=180.0, help="88: one column, 180: two")
    parser.add_argument("--by", choices=SERIES, help="what a series is; default: what differs")
    parser.add_argument("--per", choices=tuple(DIVISORS), default="serving", help="which GPUs")
    parser.add_argument("--statistic", choices=STATISTICS, default="median", help="of latencies")
    parser.add_argument("--reference", choices=("auto", "always", "never"), default="auto")
    return parser
