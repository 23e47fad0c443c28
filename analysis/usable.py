"""The one decision on which rows may enter a plot, a best-of or a comparison.

An INVALID row's figures do not mean what their columns say: drawn beside others it would win or
lose for a wrong reason. Whoever chooses among rows asks here.
"""

from __future__ import annotations

import pandas as pd

from analysis.words import USABLE, Verdict


def usable(frame: pd.DataFrame, rehearsal: bool = False) -> pd.Series[bool]:
    """True for rows that count, by index. `rehearsal` lets made-up rows in, to be labelled so."""
    words = {word.value for word in USABLE} | ({Verdict.REHEARSAL.value} if rehearsal else set())
    return frame["verdict"].isin(words)


def best(frame: pd.DataFrame, column: str, higher: bool, rehearsal: bool = False) -> object | None:
    """Index of the row with the best value among rows that count; None where there is none."""
    values = frame.loc[usable(frame, rehearsal), column].dropna()
    if values.empty:
        return None
    found: object = values.idxmax() if higher else values.idxmin()
    return found


def left_out(frame: pd.DataFrame, rehearsal: bool = False) -> str:
    """What `usable` refused, for whoever shows only the rest; empty when that is nothing."""
    counts = frame.loc[~usable(frame, rehearsal), "verdict"].value_counts()
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{told} left out" if told else ""
