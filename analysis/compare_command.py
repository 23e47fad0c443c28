"""`python -m analysis compare A B`: what differs, point by point, and what the data show of it."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from analysis.comparing import COMPARED, Comparison, compare
from analysis.difference import NO_STATEMENT, Difference
from analysis.errors import AnalysisError
from analysis.safetext import markdown_cell, printable
from analysis.saving import warn
from analysis.sides import differing, read_side
from analysis.tables import find

HEAD = ("point", "metric", "A", "B", "change", "95 % interval", "verdict", "why")
MOST = 10.0
"""A change that may be more than tenfold is not known."""
EPILOG = """
A and B: a run directory, a folder of runs, a sweep's, another tool's result, or a table saved with
`table --out x.parquet` (or .csv). Runs of the same point on one side are repeats.

exit status:
  0  compared
  1  with --fail-on regression: a regression; or no point is on both sides
  2  the request cannot be answered
"""


def main(argv: Sequence[str]) -> int:
    """The exit status; AnalysisError for a request that cannot be answered."""
    options = _parser().parse_args(argv)
    if options.tolerance is not None and not 0 <= options.tolerance < 100:
        raise AnalysisError(
            f"--tolerance {options.tolerance:g}: allowed is 0 up to 100, in per cent"
        )
    metrics = COMPARED
    if options.metrics is not None:
        metrics = tuple(word.strip() for word in options.metrics.split(",") if word.strip())
        if not metrics:
            raise AnalysisError("--metrics: no name given; `python -m analysis columns` lists them")
    for name in metrics:
        if not find(name).better:
            raise AnalysisError(f"--metrics: of {name} neither side is better")
    a, b = read_side(options.a), read_side(options.b)
    for warning in (*a.warnings, *b.warnings):
        warn(f"warning: {warning}")
    tolerance = None if options.tolerance is None else options.tolerance / 100
    found = compare(a.frame, b.frame, metrics, tolerance)
    found.settings = differing(a, b)
    sys.stdout.write(SHOWN[options.format](found))
    if not found.pairs and not found.regressions:
        warn("error: no point is on both sides: nothing was compared")
        return 1
    speeds = [each for each in found.differences if each.metric != "accuracy"]
    judged = any(each.verdict != NO_STATEMENT for each in speeds)
    if options.fail_on == "regression" and not judged:
        warn(
            "warning: no difference of speed could be judged, so that of it this exit status says"
            " nothing: repeat the points (workload.repeats), or state what counts with --tolerance"
        )
    return int(options.fail_on == "regression" and bool(found.regressions))


def as_text(found: Comparison) -> str:
    """Settings first, then the differences, then what to know of them."""
    lines = ["settings that differ:" if found.settings else "settings: none differ"]
    lines += [f"  {name}: {left}  ->  {right}" for name, left, right in found.settings]
    rows = [HEAD, *(_row(each) for each in found.differences)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD) - 1)]
    lines += ["", *(_aligned(row, widths) for row in rows), ""]
    return "".join(f"{printable(line)}\n" for line in (*lines, *_conclusion(found)))


def as_markdown(found: Comparison) -> str:
    """The same for a pull request."""
    lines = ["| setting | A | B |", "|:--|:--|:--|"] if found.settings else ["No setting differs."]
    lines += [f"| {' | '.join(map(markdown_cell, row))} |" for row in found.settings]
    lines += ["", f"| {' | '.join(HEAD)} |", "|" + ":--|" * len(HEAD)]
    lines += [f"| {' | '.join(map(markdown_cell, _row(each)))} |" for each in found.differences]
    lines += ["", *(f"- {markdown_cell(line)}" for line in _conclusion(found))]
    return "".join(f"{printable(line)}\n" for line in lines)


def as_json(found: Comparison) -> str:
    """For programs; numbers that are not known are null."""
    data = asdict(found) | {"regressions": len(found.regressions)}
    for each in data["differences"]:
        for name, value in each.items():
            if isinstance(value, float) and not math.isfinite(value):
                each[name] = None
    return json.dumps(data, indent=1) + "\n"


SHOWN = {"text": as_text, "markdown": as_markdown, "json": as_json}


def _row(one: Difference) -> tuple[str, ...]:
    change = "-" if one.change is None else f"{one.change:+.1%}"
    between = "-" if one.low is None or one.high is None else _between(one.low, one.high, one.ratio)
    unit = f" [{one.unit}]" if one.unit else ""
    return (
        one.point, f"{one.metric}{unit}", _number(one.a, one.n_a), _number(one.b, one.n_b), change,
        between, one.verdict, one.why,
    )  # fmt: skip


def _between(low: float, high: float, ratio: bool) -> str:
    """Of the change where it is a ratio, else of B - A."""
    if not ratio:
        return f"{low:+.4g} .. {high:+.4g} (B - A)"
    return f"{_percent(low)} .. {_percent(high)}"


def _percent(share: float) -> str:
    return f">{MOST:+.0%}" if share > MOST else f"{share:+.1%}"


def _number(value: float, count: int) -> str:
    return "-" if math.isnan(value) else f"{value:.5g} (n={count})"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()


def _conclusion(found: Comparison) -> list[str]:
    silent = sum(each.verdict == NO_STATEMENT for each in found.differences)
    lines = [*found.notes]
    if found.rehearsal:
        lines.insert(0, "REHEARSAL: stand-in servers on a side, made-up figures, not a result")
    if any(each.ratio for each in found.differences):
        lines.append("A, B of speeds and times: geometric means; their change is the means' ratio")
    if silent:
        lines.append(
            f"{silent} of {len(found.differences)} differences without a statement: repeat the runs"
            " (two or more a side) or their points (workload.repeats), or state what counts as a"
            " change with --tolerance PERCENT"
        )
    lines.append(f"{found.pairs} points on both sides, {len(found.regressions)} regressions")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis compare",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="the side to compare with")
    add("b", type=Path, metavar="B", help="the side that may have become worse")
    add("--fail-on", choices=("regression",), help="exit 1 when there is one")
    add("--tolerance", type=float, metavar="PERCENT", help="smaller changes do not count; without"
        " repeats, larger ones do")  # fmt: skip
    add("--metrics", metavar="a,b", help=f"default: {','.join(COMPARED)}")
    add("--format", choices=tuple(SHOWN), default="text")
    return parser
