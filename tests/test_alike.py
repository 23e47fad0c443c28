"""Texts that differ in their figures only are told once, with how far the figures reach."""

from __future__ import annotations

import pandas as pd

from analysis.alike import kind, told_once
from analysis.legend import legend
from analysis.load import Loaded


def test_figures_become_their_reach_and_names_stay() -> None:
    texts = [
        "client saturated: its event loop lagged 92 ms (p99), TTFT is 1,247.5 ms",
        "client saturated: its event loop lagged 73 ms (p99), TTFT is 984 ms",
    ]
    assert kind(texts[0]) == kind(texts[1])
    reach = "client saturated: its event loop lagged 73..92 ms (p99), TTFT is 984..1,247.5 ms"
    assert told_once(texts) == reach
    assert told_once(texts[:1]) == texts[0]


def test_what_is_part_of_a_name_or_a_date_is_no_figure() -> None:
    assert kind("c4-repeat2 of 2026-11-30 at p99") == "c4-repeat2 of 2026-11-30 at p99"
    assert kind("3 failed") != kind("3 of 4 failed")
    assert told_once(["-3 of 1e-05", "-12 of 1e-05"]) == "-12..-3 of 1e-05"


def test_a_table_tells_a_reason_of_many_points_once() -> None:
    rows = 3
    frame = pd.DataFrame({
        "run": ["r"] * rows, "verdict": ["SUSPECT"] * rows, "notes": [""] * rows,
        "reasons": [f"requests waited {100 * n} ms in the client" for n in range(1, 4)],
        "point": ["c1", "c2", "c4"], "concurrency": [1, 2, 4], "range_definition": [None] * rows,
        "range_ratio": [None] * rows, "input_range": [None] * rows, "output_range": [None] * rows,
    })  # fmt: skip
    told = [line for line in legend(Loaded(), frame).splitlines() if line.startswith("SUSPECT")]
    assert told == ["SUSPECT, r c1,c2,c4: requests waited 100..300 ms in the client"]
