"""`python -m analysis`: tables of finished or half-finished runs."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from analysis.errors import AnalysisError
from analysis.metrics import METRICS
from analysis.saving import warn
from analysis.thresholds import THRESHOLDS
from analysis.words import MEANINGS

# Commands in files of their own, each with `main(argv) -> int`. Imported only when asked for, so
# that `table` does not pay for what plots need.
COMMANDS = {
    "table": ("analysis.table_command", "one row per benchmark point; filter, sort, group, pivot"),
    "accuracy": ("analysis.accuracy_command", "GSM8K repeat by repeat, pooled, against a baseline"),
    "compare": ("analysis.compare_command", "two sides point by point; regressions beyond noise"),
    "sink": ("analysis.sink_command", "the rows in MLflow's or W&B's store, offline"),
    "series": ("analysis.series_command", "what the servers said of themselves, over time"),
    "startup": ("analysis.startup_command", "how long each phase of each worker's start took"),
    "reference": ("analysis.reference_command", "the published figures, with their frontier"),
    "plot": ("analysis.plot_command", "figures for papers: PNG, SVG, PDF"),
    "report": ("analysis.report_command", "one page to read, filter, print and pass on"),
}


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
        return list_verdicts()
    except AnalysisError as error:
        warn(str(error))
        return 2
    except KeyboardInterrupt:
        return 130  # the shell's word for Ctrl-C
    except BrokenPipeError:
        # The reader left (`| head`); nothing is wrong with the runs, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def list_columns() -> int:
    """`columns`: every column with its unit, meaning and source."""
    for metric in METRICS:
        unit = f" [{metric.unit}]" if metric.unit else ""
        better = f"; {metric.better} is better" if metric.better else ""
        sys.stdout.write(f"{metric.name}{unit}: {metric.doc} (from {metric.source}{better})\n")
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
    for name, (_, help_text) in COMMANDS.items():
        commands.add_parser(name, help=help_text, add_help=False)
    commands.add_parser("columns", help="every column: unit, meaning, source")
    commands.add_parser("verdicts", help="every verdict's meaning; every limit and its reason")
    return parser


if __name__ == "__main__":
    sys.exit(main())
