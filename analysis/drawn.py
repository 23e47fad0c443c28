"""Which rows are drawn, which are one line together, and whether the published curve is beside
them: the same answers for plots and for the report."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.reference import Reference
from analysis.usable import usable
from analysis.words import Verdict

WORKLOAD = ("isl", "osl", "range_definition", "range_ratio")
REHEARSAL_WORDS = "REHEARSAL: stand-in servers, made-up figures, not a result"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """`mask`: rows that enter plots and best-ofs, by the frame's index. `rehearsal`: every row is
    a rehearsal's, so that they may be drawn, with REHEARSAL_WORDS over them."""

    mask: pd.Series[bool]
    rehearsal: bool

    @property
    def left_out(self) -> int:
        """Rows that only the table shows."""
        return int((~self.mask).sum())


def drawn(frame: pd.DataFrame) -> Drawn:
    """What `usable` says; REHEARSAL rows only where there is nothing else."""
    made_up = frame["verdict"] == Verdict.REHEARSAL.value
    rehearsal = bool(len(frame)) and bool(made_up.all())
    mask = usable(frame, rehearsal)
    # A rehearsal keeps its word whatever failed in it, so that is asked here.
    mask &= (frame["failed"].fillna(0) == 0) & (frame["completed"].fillna(0) > 0)
    return Drawn(mask=mask.astype(bool), rehearsal=rehearsal)


def workloads(frame: pd.DataFrame) -> pd.Series[str]:
    """The load of each row in words ("8192/1024 inferencemax 0.8"): only rows of one load are
    compared in a plot."""
    words = frame["isl"].astype("string") + "/" + frame["osl"].astype("string")
    ratio = frame["range_ratio"].map(lambda value: f"{value:g}", na_action="ignore")
    ranges = frame["range_definition"].astype("string") + " " + ratio.astype("string")
    return (words + " " + ranges.fillna("")).fillna("unknown lengths").str.strip()


def reference_workload(reference: Reference) -> str:
    """The article's load, in the words of `workloads`."""
    ratio = f"{reference.range_definition} {reference.range_ratio:g}"
    return f"{reference.isl}/{reference.osl} {ratio}"


def not_comparable(frame: pd.DataFrame, reference: Reference) -> str:
    """Why the published curve says nothing about these rows; empty where it does."""
    wanted = reference_workload(reference)
    if frame.empty:
        return "no rows"
    if drawn(frame).rehearsal:
        return "these rows are a rehearsal's"
    if not (frame["served_model"] == reference.served_model).any():
        return f"it is of {reference.served_model}, no row here is"
    if not (workloads(frame) == wanted).any():
        return f"it is of {wanted}, no row here is"
    return ""
