"""`python -m analysis`: tables of finished or half-finished runs."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.legend import legend
from analysis.load import Loaded, load
from analysis.metrics import METRICS, Metric, compute_all
from analysis.saving import save, warn
from analysis.tables import (
    csv_table,
    markdown_list,
    markdown_table,
    parquet_bytes,
    pick,
    sort,
    text_table,
)
from analysis.thresholds import THRESHOLDS
from analysis.words import MEANINGS, Verdict

FORMATS = ("text", "csv", "markdown", "parquet")
SUFFIXES = {".csv": "csv", ".md": "markdown", ".parquet": "parquet"}
# Commands in files of their own, each with `main(argv) -> int`. Imported only when asked for, so
# that `table` does not pay for what plots need.
COMMANDS = {
    "series": ("analysis.series_command", "what the servers said of themselves, over time"),
    "startup": ("analysis.startup_command", "how long each phase of each worker's start took"),
    "reference": ("analysis.reference_command", "the published figures, with their frontier"),
    "plot": ("analysis.plot_command", "figures for papers: PNG, SVG, PDF"),
    "report": ("analysis.report_command", "one page to read, filter, print and pass on"),
}
EPILOG = """
exit status:
  0  at least one row, no row INVALID, no run failed
  1  a row is INVALID; a run failed, was cancelled, timed out or lacks a point; a record
     could not be used (see the warnings); or there is no row
  2  the request cannot be answered: no such path, column or format
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status; what is asked for goes to stdout, warnings to stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words and words[0] in COMMANDS:
            module = importlib.import_module(COMMANDS[words[0]][0])
            return int(module.main(words[1:]))
        options = _parser().parse_args(words)
        if options.command == "columns":
            return list_columns()
        if options.command == "verdicts":
            return list_verdicts()
        return table(options)
    except AnalysisError as error:
        warn(str(error))
        return 2
    except BrokenPipeError:
        # The reader left (`| head`); nothing is wrong with the runs, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def table(options: argparse.Namespace) -> int:
    """`table`: one row per benchmark point."""
    wanted = [(out, _form(options.format, out)) for out in options.out or [None]]
    chosen = [
        pick(options.columns, options.all_columns or form in ("csv", "parquet"))
        for _, form in wanted
    ]
    loaded = load([Path(path) for path in options.runs])
    frame = compute_all(tidy(loaded))
    if options.sort:
        frame = sort(frame, options.sort)
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    for (out, form), columns in zip(wanted, chosen, strict=True):
        content = _content(form, frame, columns, loaded)
        if out is not None:
            save(out, content)
        else:
            sys.stdout.write(content.decode())
            sys.stdout.flush()
    return exit_status(loaded, frame)


def _content(form: str, frame: pd.DataFrame, chosen: Sequence[Metric], loaded: Loaded) -> bytes:
    """The table in its format; people's formats carry the legend."""
    if form == "parquet":
        return parquet_bytes(frame, chosen)
    if form == "csv":
        return csv_table(frame, chosen).encode()
    notes = legend(loaded, frame)
    if form == "markdown":
        return f"{markdown_table(frame, chosen)}\n{markdown_list(notes)}".encode()
    return f"{text_table(frame, chosen)}\n{notes}".encode()


def exit_status(loaded: Loaded, frame: pd.DataFrame) -> int:
    """0 when there is something to show and nothing to object to, else 1."""
    failed = any(not run.ended_well for run in loaded.runs)
    invalid = bool((frame["verdict"] == Verdict.INVALID.value).any())
    return int(frame.empty or failed or invalid or loaded.lost_records > 0)


def list_columns() -> int:
    """`columns`: every column with its unit, meaning and source."""
    for metric in METRICS:
        unit = f" [{metric.unit}]" if metric.unit else ""
        sys.stdout.write(f"{metric.name}{unit}: {metric.doc} (from {metric.source})\n")
    return 0


def list_verdicts() -> int:
    """`verdicts`: every word with its meaning, every limit with its value and reason."""
    for word, meaning in MEANINGS.items():
        sys.stdout.write(f"{word}: {meaning}\n")
    for limit in THRESHOLDS:
        head = f"{limit.name} = {limit.value:g} ({limit.unit}) -> {limit.makes}"
        sys.stdout.write(f"{head}: {limit.why}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "table",
        help="one row per benchmark point",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directory, or one of runs, or a sweep's"
    )
    command.add_argument("--format", choices=FORMATS, help="default: by --out's suffix, else text")
    command.add_argument(
        "--out",
        type=Path,
        action="append",
        metavar="FILE",
        help="write there, not to stdout; may be given again",
    )
    command.add_argument("--columns", metavar="a,b", help="these columns, in this order")
    command.add_argument("--sort", metavar="COLUMN", help="best first, else ascending")
    command.add_argument(
        "--all-columns", action="store_true", help="every column (csv, parquet: always)"
    )
    commands.add_parser("columns", help="every column: unit, meaning, source")
    for name, (_, help_text) in COMMANDS.items():
        commands.add_parser(name, help=help_text, add_help=False)
    commands.add_parser("verdicts", help="every verdict's meaning; every limit and its reason")
    return parser


def _form(given: str | None, out: Path | None) -> str:
    suffix = out.suffix.lower() if out else ""
    form: str = given or SUFFIXES.get(suffix, "text")
    if form == "parquet" and out is None:
        raise AnalysisError("--format parquet is not text: give --out FILE")
    return form


if __name__ == "__main__":
    sys.exit(main())
