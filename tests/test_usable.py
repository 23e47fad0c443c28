"""What may enter a plot, a best-of and a comparison."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.thresholds import THRESHOLDS
from analysis.usable import best, left_out, usable
from analysis.words import MEANINGS, Verdict
from tests.analysis_runs import completed_run, point, run_json, write_run
from tests.test_analysis_metrics import frame_of

WORDS = [word.value for word in Verdict]


def judged(speeds: list[float | None]) -> pd.DataFrame:
    """One row a verdict, in the order of the words."""
    return pd.DataFrame({"verdict": WORDS, "total_tps": speeds})


def test_invalid_and_made_up_rows_are_not_usable_and_are_counted() -> None:
    frame = judged([1, 2, 3, 4, 5])
    assert list(frame["verdict"][usable(frame)]) == ["VALID", "UNPROVEN", "SUSPECT"]
    assert left_out(frame) == "1 INVALID, 1 REHEARSAL left out"
    assert list(usable(frame, rehearsal=True)) == [True, True, True, False, True]
    assert left_out(frame[usable(frame)]) == ""


@pytest.mark.parametrize(
    ("speeds", "higher", "row"),
    [
        ([1, 2, 3, 9, 9], True, 2),
        ([4, 2, 3, 1, 1], False, 1),
        ([None, None, None, 9, 9], True, None),
    ],
)
def test_the_best_row_is_one_that_counts(
    speeds: list[float | None], higher: bool, row: int | None
) -> None:
    assert best(judged(speeds), "total_tps", higher) == row


def test_a_point_whose_requests_all_failed_is_never_the_best_row(tmp_path: Path) -> None:
    failed = point("bad", completed=0, failed=512, total_input_tokens=0, total_output_tokens=0,
                   duration_s=0.5)  # fmt: skip
    quick = point("bad", index=1, concurrency=128, failed=1000, completed=24, duration_s=0.1,
                  total_input_tokens=24 * 7373, total_output_tokens=24 * 922)  # fmt: skip
    bad = write_run(tmp_path / "bad", run_json("bad"), [failed, quick])
    frame = frame_of(bad, completed_run(tmp_path / "good", "good"))
    assert frame["total_tps"].idxmax() == 1
    for column, higher in (("total_tps", True), ("failed", False), ("ttft_median_ms", False)):
        assert best(frame, column, higher) == list(frame["run"]).index("good")


def test_every_word_has_a_meaning_and_every_limit_a_reason() -> None:
    assert set(MEANINGS) == set(Verdict)
    assert len({limit.name for limit in THRESHOLDS}) == len(THRESHOLDS)
    assert all(limit.makes in WORDS and len(limit.why) > 20 for limit in THRESHOLDS)
