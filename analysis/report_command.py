"""`python -m analysis report RUN... --out report.html`: one page that needs nothing else."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from analysis.report_data import report_data
from analysis.report_page import report_page
from analysis.saving import save, warn

TITLE = "Disaggregated serving: measured points"


def main(argv: Sequence[str]) -> int:
    """0 when the page is written; AnalysisError where there is no row to show."""
    options = _parser().parse_args(argv)
    loaded = load([Path(path) for path in options.runs])
    frame = compute_all(tidy(loaded)).reset_index(drop=True)
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    if frame.empty:
        raise AnalysisError(
            f"{', '.join(options.runs)}: no point could be read (runs found: {len(loaded.runs)}):"
            " no report written; `python -m analysis table` says how each run ended"
        )
    created = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    page = report_page(report_data(loaded, frame), frame, options.title, created)
    save(options.out, page.encode())
    sys.stdout.write(f"{options.out}: {len(loaded.runs)} runs, {len(frame)} points\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis report", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, or a sweep's")
    parser.add_argument("--out", type=Path, metavar="FILE", default=Path("report.html"))
    parser.add_argument("--title", default=TITLE, help="the page's heading")
    return parser
