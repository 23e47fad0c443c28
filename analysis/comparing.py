"""Two sides compared point by point: what differs, by how much, and whether the data show it.

Rows of one side with the same point (load, concurrency, and topology where both sides have it) are
repeats. With two or more on both sides a change has a 95 % interval (Welch), and is called one when
its p, corrected for the number of comparisons (Holm), is below 0.05 (analysis/difference.py).
Without repeats nothing is said, unless the user states a tolerance. Accuracy has an interval of its
own: every question is a draw (Newcombe, from Wilson's ends).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.difference import (
    IMPROVEMENT,
    NESTED,
    NO_CHANGE,
    REGRESSION,
    WITHIN,
    Difference,
    differences,
    judged,
    samples,
)
from analysis.drawn import drawn
from analysis.intervals import newcombe
from analysis.tables import find

LOAD = ("isl", "osl", "input_range", "output_range", "concurrency")
RATES = ("request_rate", "burstiness")
"""Missing is a value of these: a closed loop."""
GOODPUT = ("goodput_share", "request_goodput")
COMPARED = (
    "total_tps_per_gpu", "ttft_median_ms", "ttft_p99_ms", "tpot_median_ms", "tpot_p99_ms",
    "e2el_median_ms", "goodput_share",
)  # fmt: skip
"""No figure twice (output follows from total, speed per user from TPOT): each look costs power."""
BROKEN_OFF = frozenset({"failed", "cancelled", "timed_out"})
"""Outcomes of a run in whose end points are missing that it was to measure."""
Point = tuple[Any, ...]


@dataclass(kw_only=True)
class Comparison:
    """Everything `compare` has to say."""

    settings: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, value on side a, value on side b."""
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pairs: int = 0
    rehearsal: bool = False

    @property
    def regressions(self) -> list[Difference]:
        """What became worse beyond noise or the stated tolerance."""
        return [each for each in self.differences if each.verdict == REGRESSION]


def compare(
    a: pd.DataFrame,
    b: pd.DataFrame,
    metrics: Sequence[str] = COMPARED,
    tolerance: float | None = None,
) -> Comparison:
    """Side b against side a, both in the table's columns; `tolerance` is a share of a."""
    found, abouts = Comparison(), set[str]()
    keys = _keys(a, b, found)
    counted_a, counted_b = (_counted(frame, name, found) for frame, name in ((a, "A"), (b, "B")))
    points_a, points_b = _points(counted_a, keys), _points(counted_b, keys)
    lost = _points(b.drop(counted_b.index), keys)
    broken_off = sorted(set(b["outcome"].dropna()) & BROKEN_OFF)
    found.notes += _models(counted_a, counted_b)
    for point, rows in points_a.items():
        words = _words(point, keys)
        if point in points_b:
            found.pairs += 1
            pair = (rows, points_b[point])
            known = _comparable(metrics, words, *pair, found)
            found.differences += differences(words, *pair, [find(name) for name in known])
            abouts |= {samples(*pair, name)[2] for name in known}
        elif point in lost:
            found.differences.append(_became_invalid(words, lost[point], len(rows)))
        elif broken_off:
            found.differences.append(_missing(words, broken_off, len(rows)))
        else:
            found.notes.append(f"only in A: {words}")
    found.notes += [
        f"only in B: {_words(point, keys)}" for point in points_b if point not in points_a
    ]
    found.differences = judged(found.differences, tolerance)
    found.notes += [about for about in (WITHIN, NESTED) if about in abouts]
    found.differences += _accuracies(counted_a, counted_b)
    return found


def _keys(a: pd.DataFrame, b: pd.DataFrame, found: Comparison) -> list[str]:
    """Columns that make a point; told where a side does not know one."""
    keys = [name for name in LOAD if a[name].notna().any() and b[name].notna().any()]
    unknown = [name for name in LOAD if name not in keys and len(a) and len(b)]
    if unknown:
        found.notes.append(f"paired without {', '.join(unknown)}: a side does not tell")
    keys += [name for name in RATES if a[name].notna().any() or b[name].notna().any()]
    shared = set(a["topology"].dropna()) & set(b["topology"].dropna())
    return ["topology", *keys] if shared else keys


def _counted(frame: pd.DataFrame, name: str, found: Comparison) -> pd.DataFrame:
    """The rows that enter a comparison, by the same rule as plots."""
    picture = drawn(frame)
    found.rehearsal |= picture.rehearsal
    if picture.left_out:
        words = frame.loc[~picture.mask, "verdict"].value_counts()
        told = ", ".join(f"{count} {word}" for word, count in words.items())
        found.notes.append(f"left out of {name}: {told}")
    return frame[picture.mask]


def _points(frame: pd.DataFrame, keys: Sequence[str]) -> dict[Point, pd.DataFrame]:
    if frame.empty:
        return {}
    texts = frame[list(keys)].astype("string").fillna("")
    places: dict[Point, list[Any]] = {}
    for index, point in zip(frame.index, texts.itertuples(index=False, name=None), strict=True):
        places.setdefault(point, []).append(index)
    return {point: frame.loc[indices] for point, indices in places.items()}


def _words(point: Point, keys: Sequence[str]) -> str:
    told = dict(zip(keys, point, strict=True))
    parts = [told.get("topology", ""), f"c{told['concurrency']}" if "concurrency" in told else ""]
    if told.get("request_rate"):
        parts.append(f"{float(told['request_rate']):g} req/s")
    if told.get("isl"):
        parts.append(f"{told['isl']}/{told.get('osl', '')}")
    return " ".join(part for part in parts if part) or "the only point"


def _comparable(
    metrics: Sequence[str], words: str, a: pd.DataFrame, b: pd.DataFrame, found: Comparison
) -> list[str]:
    """Goodput only where both sides mean the same by a good request."""
    if not any(name in GOODPUT and a[name].notna().any() for name in metrics):
        return list(metrics)
    limits = [", ".join(sorted(set(side["goodput_limits"].dropna()))) for side in (a, b)]
    if limits[0] and limits[0] == limits[1]:
        return list(metrics)
    if any(b[name].notna().any() for name in GOODPUT):
        told = " in A, ".join(text or "limits not told" for text in limits)
        found.notes.append(f"goodput of {words} is not compared: {told} in B")
    return [name for name in metrics if name not in GOODPUT]


def _became_invalid(words: str, rows: pd.DataFrame, n_a: int) -> Difference:
    reasons = "; ".join(str(text) for text in rows["reasons"].dropna().unique() if text)
    return Difference(
        point=words, metric="verdict", unit="", n_a=n_a, n_b=0, a=math.nan, b=math.nan, change=None,
        verdict=REGRESSION, why=f"{rows['verdict'].iloc[0]} in B: {reasons[:300]}",
    )  # fmt: skip


def _missing(words: str, outcomes: Sequence[str], n_a: int) -> Difference:
    """A point that a run of B did not come to any more."""
    return Difference(
        point=words, metric="point", unit="", n_a=n_a, n_b=0, a=math.nan, b=math.nan, change=None,
        verdict=REGRESSION, why=f"not measured in B, of which a run {' or '.join(outcomes)}",
    )  # fmt: skip


def _models(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[str]:
    """A word where the sides do not serve the same model."""
    sides = [", ".join(sorted(set(side["served_model"].dropna()))) for side in (a, b)]
    if all(sides) and sides[0] != sides[1]:
        yield f"DIFFERENT MODELS, {sides[0]} in A and {sides[1]} in B: differences are theirs too"


def _accuracies(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[Difference]:
    """One per data set that both sides were asked; each run counts once, its repeats within."""
    for dataset in sorted(
        set(a["accuracy_dataset"].dropna()) & set(b["accuracy_dataset"].dropna())
    ):
        sides = [
            side[side["accuracy_dataset"] == dataset].drop_duplicates("run") for side in (a, b)
        ]
        told = [side.dropna(subset=["accuracy", "accuracy_low", "accuracy_high"]) for side in sides]
        if any(side.empty for side in told):
            continue
        first, second = (
            [float(side[name].mean()) for name in ("accuracy", "accuracy_low", "accuracy_high")]
            for side in told
        )
        p1, p2 = first[0], second[0]
        low, high = newcombe((p1, first[1], first[2]), (p2, second[1], second[2]))
        verdict = REGRESSION if high < 0 else IMPROVEMENT if low > 0 else NO_CHANGE
        yield Difference(
            point=str(dataset), metric="accuracy", unit="", n_a=len(told[0]), n_b=len(told[1]),
            a=p1, b=p2, change=(p2 - p1) / p1 if p1 else None, low=low, high=high, verdict=verdict,
            why="Newcombe's interval: every question a draw",
        )  # fmt: skip
