"""Times, rates and tables as people read them."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence

from jobs.plain_text import printable

INTERRUPTED = 130
"""Exit status after a Ctrl-C, the shell's word for it."""


def say(text: str, keep: str = "") -> None:
    """A remark beside the answer, on standard error."""
    sys.stderr.write(f"{printable(text, keep)}\n")


def clock(at: float | None) -> str:
    """Month, day and time of day, local; "-" when it is not known."""
    if at is None:
        return "-"
    return datetime.datetime.fromtimestamp(at).strftime("%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """8 s, 2 min 05 s, 3 h 12 min; "-" when it is not known."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def number(value: float | None, digits: int = 0) -> str:
    """With thousands apart; "-" when it is not known."""
    return "-" if value is None else f"{value:,.{digits}f}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows under each other, two blanks apart; `right` are the columns that end flush."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
