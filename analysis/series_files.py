"""Reading series/*.jsonl of a run (jobs/series_files.py writes them) into one wide frame.

A file that is cut off, or a line that is no row, costs that line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jobs.store import RunDir

OWN = ("t", "process", "role", "rank", "part")
"""Seconds since 1970; who; in which part (an attempt of the run begins a new one)."""

Row = list[Any]


def read_wide(run_path: Path) -> pd.DataFrame:
    """One row per look at one rank: the columns OWN and, as floats, everything sampled.

    Empty (columns OWN only) where a run has no series.
    """
    folder = RunDir(run_path).series
    parts: list[pd.DataFrame] = []
    try:
        files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
        for file in files:
            if not file.is_symlink():
                parts += _parts(file.read_bytes().splitlines())
    except OSError:
        return pd.DataFrame(columns=list(OWN))
    frames = [part for part in parts if len(part)]
    if not frames:
        return pd.DataFrame(columns=list(OWN))
    wide = pd.concat(frames, ignore_index=True)
    return wide.sort_values("t", kind="stable", ignore_index=True)


def _parts(lines: Sequence[bytes]) -> Iterator[pd.DataFrame]:
    """One frame per head."""
    head: dict[str, Any] | None = None
    rows: list[bytes] = []
    number = 0
    for line in lines:
        if line.startswith(b"{"):
            if head is not None and rows:
                yield _frame(head, rows, number)
            head, rows, number = _head(line), [], number + 1
        elif line.startswith(b"["):
            rows.append(line)
    if head is not None and rows:
        yield _frame(head, rows, number)


def _head(line: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    columns = told.get("columns")
    names = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    return told if names and {"t", "rank"} <= set(columns) else None


def _frame(head: dict[str, Any], lines: Sequence[bytes], part: int) -> pd.DataFrame:
    columns = head["columns"]
    rows = [_padded(row, len(columns)) for row in _rows(lines) if _is_row(row, len(columns))]
    frame = pd.DataFrame(rows, columns=columns).astype("float64")
    frame["rank"] = frame["rank"].astype("Int64")
    frame.insert(1, "process", str(head.get("process")))
    frame.insert(2, "role", str(head.get("role")))
    frame["part"] = part
    return frame


def _rows(lines: Sequence[bytes]) -> Iterable[Any]:
    """All at once where every line is whole, else one by one."""
    try:
        found: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        return [row for line in lines if (row := _one(line)) is not None]
    return found


def _one(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_row(row: Any, width: int) -> bool:
    """An array of numbers, its time a sensible one."""
    if not isinstance(row, list) or not 0 < len(row) <= width:
        return False
    numbers = all(cell is None or type(cell) in (int, float) for cell in row)
    return numbers and row[0] is not None and math.isfinite(row[0])


def _padded(row: Row, width: int) -> Row:
    return row + [None] * (width - len(row))
