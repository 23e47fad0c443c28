"""`python -m analysis sink mlflow|wandb RUN... --store WHERE`: the rows in another tool's store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.filters import matches
from analysis.load import load
from analysis.metrics import compute_all
from analysis.saving import warn
from analysis.sinks import SINKS
from analysis.tables import find
from analysis.usable import left_out, usable


def main(argv: Sequence[str]) -> int:
    """0 written; 1 when no row counts; AnalysisError for what cannot be answered."""
    options = _parser().parse_args(argv)
    loaded = load(options.runs)
    frame = compute_all(tidy(loaded))
    if options.filter:
        frame = frame[matches(frame, options.filter, find)]
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    counted = frame if options.all else frame[usable(frame)]
    if len(counted) < len(frame):
        warn(f"note: {left_out(frame)}; --all sends them too, with their verdict")
    if counted.empty:
        warn("error: no row to send")
        return 1
    try:
        place = SINKS[options.sink](counted, options.store, options.project)
    except OSError as error:
        raise AnalysisError(f"--store {options.store}: {error.strerror or error}") from error
    sys.stdout.write(f"{len(counted)} rows in {place}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis sink", description=__doc__)
    parser.add_argument("sink", choices=tuple(SINKS))
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--store", type=Path, required=True, metavar="WHERE",
        help="mlflow: a .db file (SQLite); wandb: a folder",
    )  # fmt: skip
    parser.add_argument(
        "--project", default="nvl72-launcher", help="MLflow's experiment, W&B's project"
    )
    parser.add_argument("--filter", metavar="EXPR", help="as of `table`")
    parser.add_argument("--all", action="store_true", help="rows that do not count as well")
    return parser
