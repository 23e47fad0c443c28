"""What makes a row VALID, UNPROVEN, INVALID or REHEARSAL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.records import ServerCounters
from jobs.store import RunDir, write_json
from tests.analysis_runs import (
    GSM8K,
    WORD_PROBLEMS,
    completed_run,
    outcome,
    plan,
    point,
    repeat,
    run_json,
    write_run,
)
from tests.test_analysis_metrics import row_of

TOLD = ServerCounters(decode_external_tokens=512 * 7372.0, prefill_prompt_tokens=512 * 7373.0)


def test_a_faultless_point_of_a_finished_run_is_valid(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r"))
    assert (row["verdict"], row["reasons"], row["outcome"]) == ("VALID", "", "completed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"failed": 12, "completed": 500, "total_input_tokens": 500 * 7373,
          "total_output_tokens": 500 * 922}, "12 of 512 requests failed"),
        ({"completed": 500, "total_input_tokens": 500 * 7373,
          "total_output_tokens": 500 * 922}, "12 of 512 requests unaccounted for"),
        ({"completed": 0, "failed": 512, "total_input_tokens": 0,
          "total_output_tokens": 0}, "nothing completed"),
        ({"total_output_tokens": 512 * 819 - 1}, "at least 419328"),
        ({"total_output_tokens": 512 * 1024 + 1}, "at most 524288"),
        ({"total_input_tokens": 512 * 5827}, "not comparable"),
        ({"range_definition": "vllm"}, "is not 'vllm' of 8192"),
        ({"range_definition": "uniform"}, "none of inferencemax, vllm"),
        ({"range_definition": "vllm", "range_ratio": 1.0}, "no meaning"),
        ({"server": ServerCounters(decode_external_tokens=0.0)}, "KV not transferred"),
        ({"server": ServerCounters(decode_external_tokens=40.0, prefill_prompt_tokens=1000.0)},
         "KV not transferred"),
        ({"server": ServerCounters(decode_external_tokens=1e6, prefill_prompt_tokens=1e6,
                                   kv_failed=3.0)}, "3 KV transfers failed"),
        ({"server": ServerCounters(decode_external_tokens=1e6, prefill_prompt_tokens=1e6,
                                   kv_expired=2.0)}, "KV of 2 requests expired"),
    ],
)  # fmt: skip
def test_a_fault_makes_the_row_invalid_and_is_named(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    row = row_of(completed_run(tmp_path / "r", **changes))
    assert row["verdict"] == "INVALID"
    assert reason in row["reasons"]


def test_exactly_the_lowest_output_length_is_still_what_was_asked_for(tmp_path: Path) -> None:
    assert row_of(completed_run(tmp_path / "r", total_output_tokens=512 * 819))[
        "verdict"
    ] == "VALID"  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "measured", "verdict"),
    [(8192, 8180.0, "VALID"), (8192, 8214.0, "VALID"), (10000, 5827.5, "INVALID")],
)
def test_small_drift_of_the_prompt_length_passes_and_large_drift_does_not(
    tmp_path: Path, asked: int, measured: float, verdict: str
) -> None:
    row = row_of(
        completed_run(
            tmp_path / "r",
            isl=asked,
            range_ratio=1.0,
            input_range=[asked, asked],
            output_range=[1024, 1024],
            total_input_tokens=int(512 * measured),
            total_output_tokens=512 * 1024,
            server=TOLD,
        )
    )
    assert row["verdict"] == verdict
    assert row["mean_input_tokens"] == pytest.approx(measured, abs=0.01)


def test_no_transfer_counter_leaves_the_transfer_unproven(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r", server=ServerCounters()))
    assert row["verdict"] == "UNPROVEN"
    assert "KV transfer not shown" in row["reasons"]


def test_an_aggregated_run_needs_no_transfer(tmp_path: Path) -> None:
    quiet = point(server=ServerCounters(decode_external_tokens=0.0))
    folder = write_run(tmp_path / "r", run_json(plan=plan(prefill=0)), [quiet])
    assert row_of(folder)["verdict"] == "VALID"


def test_a_point_whose_accuracy_was_not_asked_for_is_unproven(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", run_json(plan=plan(accuracy=None)), repeats=[])
    row = row_of(folder)
    assert (row["verdict"], row["reasons"]) == ("UNPROVEN", "accuracy not run")


def test_passing_repeats_prove_nothing_before_all_are_there(tmp_path: Path) -> None:
    row = row_of(write_run(tmp_path / "r", repeats=[repeat(0), repeat(1)]))
    assert (row["verdict"], row["outcome"]) == ("UNPROVEN", "unfinished")
    assert row["reasons"] == "accuracy not finished: 2 of 5 repeats"


def test_accuracy_below_the_gate_makes_every_row_invalid(tmp_path: Path) -> None:
    low = [repeat(n, correct=1120) for n in range(5)]
    row = row_of(write_run(tmp_path / "r", repeats=low))
    assert row["verdict"] == "INVALID"
    assert row["reasons"] == "accuracy 0.8491 is below 0.85"


def test_accuracy_exactly_at_the_gate_passes(tmp_path: Path) -> None:
    edge = [repeat(n, questions=100, answered=100, correct=85) for n in range(5)]
    assert row_of(write_run(tmp_path / "r", repeats=edge))["verdict"] == "VALID"


def test_questions_without_an_answer_are_not_wrong_answers_but_no_result(tmp_path: Path) -> None:
    lossy = repeat(0, questions=20, answered=17, correct=16, transport_failures=3, invalid=0)
    folder = write_run(tmp_path / "r", run_json(plan=plan(accuracy=GSM8K | {"repeats": 1})),
                       repeats=[lossy])  # fmt: skip
    row = row_of(folder)
    assert row["accuracy"] == pytest.approx(0.9412, abs=1e-4)
    assert row["accuracy_transport_failures"] == 3
    assert row["verdict"] == "INVALID"
    assert "3 of 20 questions never got an answer" in row["reasons"]


def test_a_cut_off_model_fails_with_the_advice_to_allow_more_tokens(tmp_path: Path) -> None:
    cut = repeat(0, questions=10, answered=10, correct=6, invalid=4, cut=4)
    folder = write_run(tmp_path / "r", run_json(plan=plan(accuracy=GSM8K | {"repeats": 1})),
                       repeats=[cut])  # fmt: skip
    row = row_of(folder)
    assert row["verdict"] == "INVALID"
    assert "length" in row["reasons"]
    assert row["accuracy_invalid_rate"] == 0.4


def test_word_problems_prove_nothing_and_are_never_called_gsm8k(tmp_path: Path) -> None:
    passes = [
        repeat(n, dataset="word_problems", comparable=False, questions=50, answered=50, correct=9)
        for n in range(2)
    ]
    row = row_of(write_run(tmp_path / "r", run_json(plan=plan(accuracy=WORD_PROBLEMS)),
                           repeats=passes))  # fmt: skip
    assert row["verdict"] == "UNPROVEN"
    assert row["reasons"] == "accuracy: word problems (not comparable), no gate"
    assert "gsm8k" not in str(row).lower()


def test_a_record_that_calls_itself_not_comparable_passes_no_gate(tmp_path: Path) -> None:
    row = row_of(write_run(tmp_path / "r", repeats=[repeat(0, comparable=False, correct=100)]))
    assert row["verdict"] == "UNPROVEN"
    assert row["reasons"] == "accuracy: GSM8K (not comparable), no gate"


@pytest.mark.parametrize("where", ["run", "point", "engine", "repeat"])
def test_one_record_that_says_rehearsal_is_enough(tmp_path: Path, where: str) -> None:
    description = run_json()
    description["engine"]["rehearsal"] = where == "run"
    record = point(rehearsal=where == "point", engine="rehearsal" if where == "engine" else "vllm")
    passes = [repeat(n, rehearsal=where == "repeat") for n in range(5)]
    row = row_of(write_run(tmp_path / "r", description, [record], passes))
    assert row["verdict"] == "REHEARSAL"
    assert "never a result" in row["reasons"]


def test_a_point_of_a_failed_run_keeps_its_verdict_and_shows_the_outcome(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", end=outcome(status="failed", cause="prefill0 died"))
    row = row_of(folder)
    assert (row["verdict"], row["outcome"]) == ("VALID", "failed")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"verdict": "void"}, "the state canary is void"),
        ({"verdict": "skipped"}, "no state canary (skipped)"),
        (None, "no state canary (canary.json is missing)"),
    ],
)
def test_a_point_whose_transferred_state_nobody_checked_is_unproven(
    tmp_path: Path, content: dict[str, str] | None, reason: str
) -> None:
    folder = completed_run(tmp_path / "r")
    canary = RunDir(folder).canary
    canary.unlink()
    if content is not None:
        write_json(canary, content)
    row = row_of(folder)
    assert row["verdict"] == "UNPROVEN"
    assert reason in row["reasons"]
