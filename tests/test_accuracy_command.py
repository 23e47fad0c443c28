"""Questions repeat by repeat, pooled, gated, against a baseline; a collapse is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from jobs.extraction import last_number, strict_number
from tests.analysis_runs import repeat, run_json, write_run
from tests.test_analysis_metrics import row_of

Capture = pytest.CaptureFixture[str]


def asked(folder: Path, *right: int, invalid: int = 3) -> Path:
    """A run with one repeat per count of right answers of 1,319."""
    name = folder.name
    answers = [
        repeat(n, name, correct=count, invalid=invalid, strict_accuracy=(count - 13) / 1319)
        for n, count in enumerate(right)
    ]
    return write_run(folder, run_json(name), repeats=answers)


def test_repeats_are_told_one_by_one_and_pooled(tmp_path: Path, capsys: Capture) -> None:
    assert main(["accuracy", str(asked(tmp_path / "r", 1161, 1150, 1170, 1158, 1166))]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert ["0", "1319", "1161", "0.8802", "0.8616", "..", "0.8966", "0.8704", "3", "(0.2%)", "0",
            "0", "(0.0%)"] in lines  # fmt: skip
    assert ["pooled", "6595", "5805", "0.8802", "15", "(0.2%)", "0", "0", "(0.0%)"] in lines
    assert "0.8616 .. 0.8966 (binomial, Wilson)" in shown
    assert "95 % over repeats 0.8730 .. 0.8874 (t)" in shown
    assert "stricter extraction 0.8704" in shown
    assert "gate: 0.88 - 0.03 = 0.85: passed" in shown


@pytest.mark.parametrize(
    ("right", "words", "status"),
    [(1161, "+0.0000, 95 % -0.0248 .. +0.0248: no difference shown", 0), (1080, "BELOW it", 1)],
)
def test_a_baseline_is_compared_with_its_interval(
    tmp_path: Path, capsys: Capture, right: int, words: str, status: int
) -> None:
    base = asked(tmp_path / "aggregated", *[1161] * 5)
    ours = asked(tmp_path / "ours", *[right] * 5)
    assert main(["accuracy", str(ours), "--baseline", str(base)]) == status
    shown = capsys.readouterr().out
    assert "against aggregated: " in shown
    assert words in shown


def test_a_collapse_is_named_as_what_it_is(tmp_path: Path, capsys: Capture) -> None:
    fallen = asked(tmp_path / "r", *[400] * 5, invalid=360)
    assert main(["accuracy", str(fallen)]) == 1
    assert "collapse: accuracy 0.30 with 27% of the answers" in capsys.readouterr().out
    row = row_of(fallen)
    assert row["verdict"] == "INVALID"
    assert "decode reading state before it has arrived" in row["reasons"]


def test_a_weak_model_is_no_collapse(tmp_path: Path, capsys: Capture) -> None:
    assert main(["accuracy", str(asked(tmp_path / "r", *[500] * 5))]) == 1
    shown = capsys.readouterr().out
    assert "FAILED" in shown
    assert "collapse" not in shown


def test_lost_questions_and_no_questions_are_no_success(tmp_path: Path, capsys: Capture) -> None:
    lossy = [repeat(0, answered=1300, transport_failures=19)]
    assert main(["accuracy", str(write_run(tmp_path / "l", repeats=lossy))]) == 1
    assert "19 questions never got an answer: run it again" in capsys.readouterr().out
    assert main(["accuracy", str(write_run(tmp_path / "n", run_json("n"), repeats=[]))]) == 1
    assert "none of these runs has answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "loose", "strict"),
    [
        ("The answer is 18.", 18, "18"),
        ("#### 1,234", 1234, "1234"),
        ("so $1,234.50 in all. #### $1,234.50", 50, "1234.50"),
        ("#### -5", 5, "-5"),
        ("#### 18 dollars", 18, "18"),
        ("It costs 18.00", 0, None),
        ("#### 42\nQuestion 2: how many of 7", 7, "42"),
        ("05", None, None),
        ("no number", None, None),
    ],
)
def test_known_limits_of_both_extractions(
    answer: str, loose: int | None, strict: str | None
) -> None:
    assert last_number(answer) == loose
    assert (None if (found := strict_number(answer)) is None else str(found)) == strict


def test_a_gate_that_is_not_decided_is_no_success(tmp_path: Path, capsys: Capture) -> None:
    assert main(["accuracy", str(asked(tmp_path / "r", 1161, 1150))]) == 1
    assert "0.85: not decided" in capsys.readouterr().out


def test_a_baseline_that_was_asked_otherwise_is_not_compared(
    tmp_path: Path, capsys: Capture
) -> None:
    for name, shots in (("a", 5), ("b", 0)):
        answers = [repeat(n, name, protocol={"num_shots": shots}) for n in range(5)]
        write_run(tmp_path / name, run_json(name), repeats=answers)
    words = ["accuracy", str(tmp_path / "a"), "--baseline", str(tmp_path / "b")]
    assert main(words) == 0
    assert "asked otherwise (num_shots 5, there 0): not compared" in capsys.readouterr().out
