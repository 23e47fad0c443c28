"""`python -m analysis table`: run directories and other tools' results as one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.filters import matches
from analysis.grouping import AGGREGATES, chosen, group, pivot
from analysis.legend import legend
from analysis.load import Loaded, load
from analysis.metrics import Metric, compute_all
from analysis.pooling import pool
from analysis.safetext import printable
from analysis.saving import save, warn
from analysis.tables import (
    beside,
    csv_table,
    find,
    latex_table,
    markdown_list,
    markdown_table,
    parquet_bytes,
    pick,
    sort,
    text_table,
)
from analysis.words import Verdict

FORMATS = ("text", "csv", "markdown", "parquet", "latex")
SUFFIXES = {".csv": "csv", ".md": "markdown", ".parquet": "parquet", ".tex": "latex"}
EPILOG = """
filter:  --filter "topology == 'dep8_prefill6x2' and concurrency >= 1024 and verdict != 'INVALID'"
group:   --group topology --agg total_tps_per_gpu:best,ttft_p99_ms:mean,total_tps_per_gpu:ci95
pivot:   --pivot concurrency:topology:total_tps_per_gpu
pool:    --pool: repeats of a point (workload.repeats) as one row, means with their 95 % interval
Groups and pivots are over rows that count: INVALID and made-up ones are left out, and counted.

exit status:
  0  at least one row, no row INVALID, no run failed
  1  a row is INVALID; a run failed, was cancelled, timed out or lacks a point; a record
     could not be used (see the warnings); or there is no row
  2  the request cannot be answered: no such path, column or format, a bad filter
"""


@dataclass(frozen=True)
class View:
    """What is shown: a frame, its columns, and lines under it."""

    frame: pd.DataFrame
    columns: tuple[Metric, ...]
    notes: str


def main(argv: Sequence[str]) -> int:
    """The exit status; AnalysisError for a request that cannot be answered."""
    options = _parser().parse_args(argv)
    for name in ("group", "pivot", "agg", "columns"):
        if (given := getattr(options, name)) is not None and not given.strip(" ,"):
            raise AnalysisError(f"--{name}: no name given; `python -m analysis columns` lists them")
    if options.agg and not (options.group or options.pool):
        raise AnalysisError("--agg goes with --group or --pool")
    if sum(map(bool, (options.group, options.pivot, options.pool))) > 1:
        raise AnalysisError("--group, --pivot and --pool make different tables: give one of them")
    wanted = [(out, _form(options.format, out)) for out in options.out or [None]]
    grouped = bool(options.group or options.pivot or options.pool)
    columns = {
        form: () if grouped else pick(options.columns, options.all_columns or _whole(form))
        for _, form in wanted
    }
    loaded = load([Path(path) for path in options.runs])
    whole = compute_all(tidy(loaded))
    frame = whole
    if options.filter is not None:
        frame = whole[matches(whole, options.filter, find)]
        if frame.empty and len(whole):
            warn(f"warning: --filter leaves none of {len(whole)} rows")
        loaded = loaded.only(set(frame["run"]))
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    shown = {form: _view(options, frame, columns[form], loaded) for _, form in wanted}
    for out, form in wanted:
        content = _content(form, shown[form])
        if out is not None:
            save(out, content)
        else:
            sys.stdout.write(content.decode())
            sys.stdout.flush()
    return exit_status(loaded, frame)


def _whole(form: str) -> bool:
    return form in ("csv", "parquet")


def _view(
    options: argparse.Namespace, frame: pd.DataFrame, columns: tuple[Metric, ...], loaded: Loaded
) -> View:
    """The frame grouped or as it is, sorted, with its columns and notes."""
    if not (options.group or options.pivot or options.pool):
        ordered = sort(frame, options.sort) if options.sort is not None else frame
        if not (options.columns or options.all_columns) and columns == pick(None, False):
            columns = beside(columns, frame)
        return View(ordered, columns, legend(loaded, ordered))
    if options.pivot:
        made, metrics, note = pivot(frame, options.pivot)
    elif options.pool:
        made, metrics, note = pool(frame, options.agg)
    else:
        made, metrics, note = group(frame, options.group, options.agg)
    if options.sort is not None:
        made = sort(made, options.sort, metrics)
    return View(made, chosen(metrics, options.columns), f"{printable(note)}\n" if note else "")


def _content(form: str, view: View) -> bytes:
    """The table in its format; people's formats carry the notes."""
    frame, columns = view.frame, view.columns
    if form == "parquet":
        return parquet_bytes(frame, columns)
    if form == "csv":
        return csv_table(frame, columns).encode()
    if form == "latex":
        notes = "".join(f"% {line}\n" for line in view.notes.splitlines())
        return f"{latex_table(frame, columns)}{notes}".encode()
    if form == "markdown":
        return f"{markdown_table(frame, columns)}\n{markdown_list(view.notes)}".encode()
    return f"{text_table(frame, columns)}\n{view.notes}".encode()


def exit_status(loaded: Loaded, frame: pd.DataFrame) -> int:
    """0 when there is something to show and nothing to object to, else 1."""
    failed = any(not run.ended_well for run in loaded.runs)
    invalid = bool((frame["verdict"] == Verdict.INVALID.value).any())
    return int(frame.empty or failed or invalid or loaded.lost_records > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis table",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run directory, one of runs, a sweep's, or another"
        " tool's result JSON")  # fmt: skip
    add("--format", choices=FORMATS, help="default: by --out's suffix, else text")
    add("--out", type=Path, action="append", metavar="FILE",
        help="write there, not to stdout; may be given again")  # fmt: skip
    add("--columns", metavar="a,b", help="these columns, in this order")
    add("--all-columns", action="store_true", help="every column (csv, parquet: always)")
    add("--filter", metavar="EXPR", help="only rows for which this holds")
    add("--sort", metavar="a,b:desc", help="best first, else ascending")
    add("--group", metavar="a,b", help="one row per combination of these columns")
    add("--agg", metavar="a:how,b:how", help=f"with --group, --pool; how: {', '.join(AGGREGATES)}")
    add("--pool", action="store_true", help="one row per point of a run: mean of its repeats and"
        " half of the 95 %% interval (t)")  # fmt: skip
    add("--pivot", metavar="INDEX:COLUMN:VALUE[:HOW]", help="a column per value of COLUMN")
    return parser


def _form(given: str | None, out: Path | None) -> str:
    suffix = out.suffix.lower() if out else ""
    if given is None and suffix not in ("", ".txt", *SUFFIXES):
        known = ", ".join(SUFFIXES)
        raise AnalysisError(f"--out {out}: the suffix is none of {known}; or give --format")
    form: str = given or SUFFIXES.get(suffix, "text")
    if form == "parquet" and out is None:
        raise AnalysisError("--format parquet is not text: give --out FILE")
    return form
