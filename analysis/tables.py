"""Frame to text, markdown, CSV or parquet: choose columns, sort rows, write them safely."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.errors import AnalysisError
from analysis.metrics import BY_NAME, METRICS, Metric
from analysis.safetext import csv_cell, latex_cell, markdown_cell, shorten
from analysis.usable import usable

WIDTH = 200
MISSING = "-"
SHRINKS = ("run", "topology")
SHORTEST = 12
COMPACT = (
    "run", "topology", "concurrency", "isl", "osl", "completed", "failed",
    "total_tps_per_gpu", "total_tps_per_allocated_gpu", "output_tps_per_decode_gpu",
    "input_tps_per_prefill_gpu", "generation_tps_per_user", "ttft_median_ms", "ttft_p99_ms",
    "tpot_median_ms", "external_kv_share", "accuracy", "verdict", "outcome",
)  # fmt: skip


ASKED = (
    ("request_rate", "concurrency"),
    ("repeat", "concurrency"),
    ("goodput_share", "tpot_median_ms"),
)
"""Columns that the compact set has where they were asked for, and after which."""


def pick(names: str | None, every: bool) -> tuple[Metric, ...]:
    """The columns asked for ("a,b"), all of them, or the compact set."""
    if names is not None:
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        if not wanted:
            raise AnalysisError("--columns: no name given; `python -m analysis columns` lists them")
        return tuple(find(name) for name in dict.fromkeys(wanted))
    return METRICS if every else tuple(BY_NAME[name] for name in COMPACT)


def beside(columns: Sequence[Metric], frame: pd.DataFrame) -> tuple[Metric, ...]:
    """The compact set with the columns without which its rows could not be told apart, or that
    were asked for with the load: rate, repeat, goodput."""
    made = list(columns)
    for name, after in reversed(ASKED):
        told = frame[name].dropna()
        if len(told) and (name != "repeat" or (told > 1).any()):
            made.insert(made.index(BY_NAME[after]) + 1, BY_NAME[name])
    return tuple(made)


def find(name: str) -> Metric:
    """The metric of that name; AnalysisError with the nearest names otherwise."""
    if name in BY_NAME:
        return BY_NAME[name]
    near = difflib.get_close_matches(name, BY_NAME, n=4, cutoff=0.4)
    hint = f"nearest: {', '.join(near)}" if near else "nothing like it"
    raise AnalysisError(
        f"no column {name!r:.80}; {hint}; `python -m analysis columns` lists all {len(BY_NAME)}"
    )


def sort(frame: pd.DataFrame, words: str, columns: Sequence[Metric] = ()) -> pd.DataFrame:
    """Rows by columns ("a,b:desc"), the first one first; missing last.

    Without asc or desc a column's better side comes first, and ascending where neither is. Where
    the first column has a better side, rows that do not count come after those that do: the first
    row of a best-of is never an INVALID one. Made-up rows rank among themselves. `columns` are
    those of a frame that is not the table's.
    """
    known = {metric.name: metric for metric in columns}
    keys = [_sort_key(word.strip(), known) for word in words.split(",") if word.strip()]
    if not keys:
        raise AnalysisError("--sort: no name given; `python -m analysis columns` lists them")
    ordered = frame.sort_values(
        [metric.name for metric, _ in keys],
        ascending=[rising for _, rising in keys],
        kind="stable",
        na_position="last",
    )
    first = keys[0][0]
    if not first.better or "verdict" not in ordered:
        return ordered
    counts = usable(ordered, rehearsal=True) & ordered[first.name].notna()
    return pd.concat([ordered[counts], ordered[~counts]])


def _sort_key(word: str, known: Mapping[str, Metric]) -> tuple[Metric, bool]:
    name, _, way = word.partition(":")
    if way not in ("", "asc", "desc"):
        raise AnalysisError(f"--sort {word!r:.80}: after the colon allowed are asc and desc")
    if known and name not in known:
        raise AnalysisError(f"--sort: no column {name!r:.80} here; there are {', '.join(known)}")
    metric = known.get(name) or find(name)
    return metric, way == "asc" if way else metric.better != "higher"


def text_table(frame: pd.DataFrame, columns: Sequence[Metric]) -> str:
    """Two header lines (label, unit), a rule, one line a row; names give way to WIDTH."""
    told = {metric.name: cells(frame, metric) for metric in columns}
    widths = {m.name: max(map(len, (m.label, m.unit, *told[m.name]))) for m in columns}
    if "rows" in widths or set(COMPACT) <= set(widths) <= {*COMPACT, *(n for n, _ in ASKED)}:
        _narrow(widths)
    rows = [[m.label for m in columns], [m.unit for m in columns]]
    rows += [["-" * widths[m.name] for m in columns]]
    rows += [list(row) for row in zip(*told.values(), strict=True)]
    return "".join(
        "  ".join(_pad(cell, m, widths[m.name]) for cell, m in zip(row, columns, strict=True))
        .rstrip() + "\n"
        for row in rows
    )  # fmt: skip


def markdown_table(frame: pd.DataFrame, columns: Sequence[Metric]) -> str:
    """A pipe table; numbers right aligned, units in the header."""
    head = [f"{m.label} ({m.unit})" if m.unit else m.label for m in columns]
    rule = [":--" if m.kind == "text" else "--:" for m in columns]
    body = zip(*(cells(frame, metric) for metric in columns), strict=True)
    rows = [map(markdown_cell, head), rule, *(map(markdown_cell, row) for row in body)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def markdown_list(lines: str) -> str:
    """Plain lines as a markdown list."""
    return "".join(f"- {markdown_cell(line)}\n" for line in lines.splitlines())


def latex_table(frame: pd.DataFrame, columns: Sequence[Metric]) -> str:
    """A tabular for a paper, with booktabs' rules; missing is an en dash."""
    body = zip(*(cells(frame, metric) for metric in columns), strict=True)
    rows = [
        " & ".join("--" if cell == MISSING else latex_cell(cell) for cell in row) for row in body
    ]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{" + "".join("l" if m.kind == "text" else "r" for m in columns) + "}",
        r"\toprule",
        " & ".join(latex_cell(m.label) for m in columns) + r" \\",
        " & ".join(latex_cell(m.unit) for m in columns) + r" \\",
        r"\midrule",
        *(row + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "".join(f"{line}\n" for line in lines)


def csv_table(frame: pd.DataFrame, columns: Sequence[Metric]) -> str:
    """Full precision under column names; a missing value is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(metric.name for metric in columns)
    texts = [_csv_cells(frame, metric) for metric in columns]
    writer.writerows(zip(*texts, strict=True))
    return stream.getvalue()


def parquet_bytes(frame: pd.DataFrame, columns: Sequence[Metric]) -> bytes:
    """The typed columns as they are."""
    stream = io.BytesIO()
    chosen = frame[[metric.name for metric in columns]].reset_index(drop=True)
    chosen.to_parquet(stream, index=False)
    return stream.getvalue()


def cells(frame: pd.DataFrame, metric: Metric) -> list[str]:
    """The column as people read it."""
    digits = metric.digits if metric.kind == "real" else 0
    return [_shown(value, metric, digits) for value in frame[metric.name]]


def _shown(value: object, metric: Metric, digits: int) -> str:
    if pd.isna(value) or value == "":  # type: ignore[call-overload]
        return MISSING
    return str(value) if metric.kind == "text" else f"{value:.{digits}f}"


def _csv_cells(frame: pd.DataFrame, metric: Metric) -> list[str]:
    values = ["" if pd.isna(value) else value for value in frame[metric.name]]
    return [csv_cell(value) if metric.kind == "text" else str(value) for value in values]


def _narrow(widths: dict[str, int]) -> None:
    """Take what is too wide from the columns that may shrink."""
    for name in SHRINKS:
        excess = sum(widths.values()) + 2 * (len(widths) - 1) - WIDTH
        if excess > 0 and widths.get(name, 0) > SHORTEST:
            widths[name] = max(SHORTEST, widths[name] - excess)


def _pad(cell: str, metric: Metric, width: int) -> str:
    cell = shorten(cell, width)
    return cell.ljust(width) if metric.kind == "text" else cell.rjust(width)
