"""The command as people use it: what it prints, writes, refuses and returns."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.metrics import METRICS
from analysis.safetext import csv_cell, markdown_cell, printable, shorten
from analysis.tables import WIDTH
from jobs.records import Latency
from jobs.store import RunDir
from tests.analysis_runs import (
    WORD_PROBLEMS,
    completed_run,
    outcome,
    plan,
    point,
    repeat,
    run_json,
    write_run,
)
from tests.test_analysis_metrics import frame_of

Capture = pytest.CaptureFixture[str]


def test_the_text_table_is_compact_and_says_what_it_divides_by(
    tmp_path: Path, capsys: Capture
) -> None:
    folder = completed_run(tmp_path / "r", "20261129-153000-dep8_prefill4x2-random_8k1k-a1b2c3")
    assert main(["table", str(folder)]) == 0
    shown = capsys.readouterr()
    table, legend = shown.out.split("\n\n")
    assert shown.err == ""
    assert max(map(len, table.splitlines())) <= WIDTH
    assert "tok/s/GPU" in table.splitlines()[1]
    assert "2654.4" in table
    assert "GPUs, dep8_prefill4x2: 16 serving (8 decode, 8 prefill), 16 allocated" in legend
    assert "GSM8K 0.8802 +-0.0175 (5 x 1319), gate >= 0.85 passed" in legend


def test_numbers_are_right_aligned_under_their_header(tmp_path: Path, capsys: Capture) -> None:
    records = [point(), point(index=1, concurrency=5120)]
    write_run(tmp_path / "r", points=records)
    main(["table", str(tmp_path / "r"), "--columns", "concurrency,verdict"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["conc  verdict", "", "----  -------", "  64  VALID", "5120  VALID"]


def test_word_problems_are_named_as_not_comparable(tmp_path: Path, capsys: Capture) -> None:
    passed = repeat(0, dataset="word_problems", comparable=False, questions=50, answered=50,
                    correct=30)  # fmt: skip
    description = run_json(plan=plan(accuracy=WORD_PROBLEMS))
    main(["table", str(write_run(tmp_path / "r", description, repeats=[passed]))])
    shown = capsys.readouterr().out
    assert "word problems (not comparable) 0.6000" in shown
    assert "gsm8k" not in shown.lower()


def test_a_gate_is_not_passed_before_all_repeats_are_there(tmp_path: Path, capsys: Capture) -> None:
    assert main(["table", str(write_run(tmp_path / "r", repeats=[repeat(0), repeat(1)]))]) == 0
    shown = capsys.readouterr().out
    assert "(2 x 1319), gate >= 0.85 not decided (2 of 5 repeats)" in shown
    assert "unfinished, run-1: 1 of ? points, no outcome.json" in shown


def test_a_failed_gate_and_a_failed_run_stand_under_the_table(
    tmp_path: Path, capsys: Capture
) -> None:
    low = [repeat(n, correct=1000) for n in range(5)]
    end = outcome(status="failed", cause="prefill2 exited\nwith rc 1")
    folder = write_run(tmp_path / "r", repeats=low, end=end)
    assert main(["table", str(folder)]) == 1
    shown = capsys.readouterr().out
    assert "gate >= 0.85 FAILED" in shown
    assert "INVALID, run-1 c64: accuracy 0.7582 is below 0.85" in shown
    assert "failed, run-1: 1 of ? points, in sweep: prefill2 exited with rc 1" in shown


def test_rows_with_different_length_ranges_are_not_one_series(
    tmp_path: Path, capsys: Capture
) -> None:
    other_point = point(
        index=1,
        range_definition="vllm",
        range_ratio=0.2,
        input_range=[6553, 9831],
        output_range=[819, 1229],
        total_input_tokens=512 * 8192,
        total_output_tokens=512 * 1024,
    )
    main(["table", str(write_run(tmp_path / "r", points=[point(), other_point]))])
    shown = capsys.readouterr().out
    assert "vllm 0.2: input 6553..9831" in shown
    assert "different length ranges" in shown


def test_exit_status_tells_good_from_bad(tmp_path: Path, capsys: Capture) -> None:
    good = completed_run(tmp_path / "good", "good")
    failed = write_run(tmp_path / "f", run_json("f"), end=outcome("f", "cancelled"))
    empty = write_run(tmp_path / "e", run_json("e"), points=[])
    lossy = completed_run(tmp_path / "l", "l")
    (RunDir(lossy).points / "1-c1.json").write_text("{")
    unproven = write_run(tmp_path / "u", run_json("u", plan=plan(accuracy=None)), repeats=[])
    rehearsal = run_json("h", engine={"name": "rehearsal", "rehearsal": True})
    half = plan(points=[{"index": 0, "concurrency": 64}, {"index": 1, "concurrency": 128}])
    short = write_run(tmp_path / "s", run_json("s", plan=half), end=outcome("s"))
    statuses = [
        main(["table", str(folder)])
        for folder in (good, failed, empty, lossy, short, unproven,
                       write_run(tmp_path / "h", rehearsal))
    ]  # fmt: skip
    assert statuses == [0, 1, 1, 1, 1, 0, 0]
    assert "warning: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "total_tps_gpu"], "nearest: total_tps_per_gpu"),
        (["--sort", "ttft_p95_ms"], "nearest: ttft_p9"),
        (["--columns", ","], "no name given"),
        (["--format", "parquet"], "give --out FILE"),
        (["--out", "nowhere/x.csv"], "cannot be written"),
        (["--out", "."], "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = completed_run(tmp_path / "r")
    assert main(["table", str(folder), *words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_an_unknown_format_names_the_known_ones(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["table", "r", "--format", "xml"])
    assert caught.value.code == 2
    assert "'text', 'csv', 'markdown', 'parquet'" in capsys.readouterr().err


def test_sorting_puts_the_best_row_first_and_missing_ones_last(
    tmp_path: Path, capsys: Capture
) -> None:
    tpots = (20.0, None, 10.0)
    records = [
        point(index=n, concurrency=n + 1, tpot_ms=Latency(median=tpot))
        for n, tpot in enumerate(tpots)
    ]
    folder = str(write_run(tmp_path / "r", points=records))
    for column in ("tpot_median_ms", "generation_tps_per_user"):
        main(["table", folder, "--format", "csv", "--columns", "concurrency", "--sort", column])
        assert capsys.readouterr().out.split() == ["concurrency", "3", "1", "2"]


def test_a_row_that_does_not_count_is_never_sorted_to_the_top(
    tmp_path: Path, capsys: Capture
) -> None:
    fast = point(index=1, concurrency=128, failed=1, completed=1023, duration_s=1.0)
    folder = str(write_run(tmp_path / "r", points=[point(), fast]))
    for column in ("total_tps_per_gpu", "failed"):
        main(["table", folder, "--columns", "concurrency,verdict", "--sort", column])
        assert capsys.readouterr().out.splitlines()[3:5] == ["  64  VALID", " 128  INVALID"]


def test_the_list_of_verdicts_has_every_word_and_every_limit(capsys: Capture) -> None:
    assert main(["verdicts"]) == 0
    shown = capsys.readouterr().out
    assert "SUSPECT: the requests did what was asked, but" in shown
    assert "prompts_per_stream = 4 (requests / concurrency) -> SUSPECT: ramp-up" in shown


def test_csv_keeps_every_digit_and_leaves_missing_cells_empty(
    tmp_path: Path, capsys: Capture
) -> None:
    main(["table", str(completed_run(tmp_path / "r", itl_ms=Latency())), "--format", "csv"])
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert list(row) == [metric.name for metric in METRICS]
    assert row["itl_mean_ms"] == ""
    assert row["failed"] == "0"
    assert float(row["accuracy"]) == 1161 / 1319


def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r", itl_ms=Latency())
    target = tmp_path / "table.parquet"
    assert main(["table", str(folder), "--out", str(target)]) == 0
    read = pd.read_parquet(target)
    pd.testing.assert_frame_equal(read, frame_of(folder), check_dtype=False)
    assert read["concurrency"].dtype == "Int64"
    assert read["itl_mean_ms"].isna().all()
    assert not [entry for entry in tmp_path.iterdir() if entry.name.endswith(".tmp")]


def test_names_cannot_move_the_cursor_or_start_a_formula_or_split_a_cell(
    tmp_path: Path, capsys: Capture
) -> None:
    description = run_json()
    description["labels"]["topology"] = "=cmd|'/c calc'!A1\x1b[2J\n\u202e\ud800<b>"
    folder = str(write_run(tmp_path / "r", description))
    columns = ["--columns", "topology,concurrency"]
    shown = {}
    for form in ("text", "csv", "markdown"):
        main(["table", folder, "--format", form, *columns])
        shown[form] = capsys.readouterr().out
        assert not set("\x1b\u202e\ud800") & set(shown[form])
    assert "=cmd|'/c calc'!A1\\x1b[2J\\n\\u202e\\ud800<b>" in shown["text"]
    assert shown["csv"].splitlines()[1].startswith("'=cmd")
    row = shown["markdown"].splitlines()[2]
    assert row.startswith("| =cmd\\|'/c calc'")
    assert "<b>" not in row
    assert row.replace("\\|", "").count("|") == 3
    target = tmp_path / "t.parquet"
    assert main(["table", folder, "--out", str(target)]) == 0


@pytest.mark.parametrize("start", ["=1", "+1", "-1", "@x", " =1"])
def test_csv_text_that_looks_like_a_formula_gets_a_quote_mark(start: str) -> None:
    assert csv_cell(start) == f"'{start}"


def test_safe_text_leaves_plain_names_alone() -> None:
    assert printable("dep8_prefill4x2 \u00b5s") == "dep8_prefill4x2 \u00b5s"
    assert csv_cell("a=b") == "a=b"
    assert markdown_cell("a\\|b") == "a\\\\\\|b"
    assert shorten("abcdefghijkl", 8) == "abc..jkl"


def test_a_terminal_that_knows_only_ascii_still_gets_the_table(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r\u00fcn", "r\u00fcn")
    command = [sys.executable, "-m", "analysis", "table", str(folder)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "r\\xfcn" in done.stdout


def test_the_list_of_columns_names_units_and_sources(capsys: Capture) -> None:
    assert main(["columns"]) == 0
    assert "total_tps_per_gpu [tok/s/GPU]: total / serving GPUs (from" in capsys.readouterr().out
