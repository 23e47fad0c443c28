"""What makes a row VALID, UNPROVEN, SUSPECT, INVALID or REHEARSAL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.records import ClientLoad, Latency, ServerCounters, Window
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
        ({"server": replace(TOLD, kv_failed=3.0)}, "3 KV transfers failed"),
        ({"server": replace(TOLD, generation_tokens=512 * 500.0)},
         "client counted 472064 output tokens, the servers 256000: they disagree"),
        ({"server": replace(TOLD, prefill_prompt_tokens=512 * 9000.0)},
         "client counted 3774976 prompt tokens, the servers 4608000: they disagree"),
        ({"total_output_tokens": 512 * 850}, "early stop: mean answer 850.0 tokens"),
        ({"window": Window(short_outputs=3)}, "early stop: 3 of 512 answers"),
        ({"window": Window(other_prompts=512, other_prompt_tokens=512 * 80)},
         "in 512 of 512 prompts (40960 tokens in all); theirs is not the tokenizer or chat "
         "template that the prompts were made with, 1.1% of all"),
        ({"ended_at": "2026-08-01T09:59:50Z"}, "clock: the point ended 10 s before it started"),
        ({"ended_at": "2026-08-01T10:01:00Z"}, "clock: the client measured 100.0 s within 60.0 s"),
        ({"e2el_ms": Latency(mean=20000.0)}, "clock: 102.4 requests in flight on average"),
        ({"e2el_ms": Latency(mean=110000.0)}, "clock: mean E2E 110.0 s"),
        ({"request_throughput": 8.0}, "clock: 8 requests/s told, 5.12 by count and duration"),
    ],
)  # fmt: skip
def test_a_fault_makes_the_row_invalid_and_is_named(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    row = row_of(completed_run(tmp_path / "r", **changes))
    assert row["verdict"] == "INVALID"
    assert reason in row["reasons"]


def test_warm_up_and_failed_requests_are_in_the_servers_counts_and_no_disagreement(
    tmp_path: Path,
) -> None:
    told = ServerCounters(
        decode_external_tokens=576 * 7372.0,
        prefill_prompt_tokens=576 * 7373.0,
        generation_tokens=576 * 922.0,
    )
    row = row_of(completed_run(tmp_path / "r", server=told, warmup_requests=64))
    assert (row["verdict"], row["reasons"]) == ("VALID", "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_prompts": 192, "completed": 192, "total_input_tokens": 192 * 7373,
          "total_output_tokens": 192 * 922, "duration_s": 38.0, "server": ServerCounters(
              decode_external_tokens=192 * 7372.0, prefill_prompt_tokens=192 * 7373.0)},
         "too few prompts: 192 for 64 streams, 3 each"),
        ({"window": Window(peak_concurrency=50)}, "client or frontend saturated: 50 requests"),
        ({"e2el_ms": Latency(mean=4000.0)}, "saturated: 20.5 requests in flight on average"),
        ({"window": Window(queue_mean_ms=1400.0)}, "client queueing: requests waited 1400 ms"),
        ({"load": ClientLoad(client_cpu_share=0.97)}, "its busiest process used 97% of one core"),
        ({"load": ClientLoad(client_loop_lag_p99_ms=40.0)}, "its event loop lagged 40 ms (p99)"),
        ({"load": ClientLoad(ttft_client_added_p99_ms=90.0)}, "it added to TTFT 90 ms (p99)"),
        ({"window": Window(first_wave_ttft_ms=8450.0, later_ttft_ms=189.3)},
         "cold first wave: mean TTFT of the first 64 requests 8450 ms, of the others 189.3 ms"),
        ({"window": Window(first_half_e2el_ms=10000.0, second_half_e2el_ms=12500.0)},
         "not steady: median E2E 10000 ms in the first half"),
        ({"window": Window(other_prompts=3, other_prompt_tokens=3)},
         "other tokenizer: the servers counted another length than the prompt file in 3 of 512"),
        ({"server": replace(TOLD, preemptions=7.0)}, "7 preemptions"),
        ({"server": replace(TOLD, kv_expired=2.0)}, "leases expired: KV of 2 requests"),
        ({"server": replace(TOLD, prefill_cached_tokens=512 * 3000.0)},
         "warm cache: 40.7% of the prompt tokens"),
        ({"server": replace(TOLD, decode_external_tokens=512 * 5000.0)}, "only 67.8% of the"),
    ],
)  # fmt: skip
def test_a_doubt_makes_the_row_suspect_and_is_named(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    row = row_of(completed_run(tmp_path / "r", **changes))
    assert (row["verdict"], reason in row["reasons"]) == ("SUSPECT", True), row["reasons"]


@pytest.mark.parametrize(
    "changes",
    [
        {"window": Window(peak_concurrency=58)},
        {"window": Window(queue_mean_ms=1000.0)},
        {"load": ClientLoad(client_cpu_share=0.8, client_loop_lag_p99_ms=10.0)},
        {"window": Window(first_wave_ttft_ms=560.0, later_ttft_ms=189.3)},
        {"window": Window(first_half_e2el_ms=10000.0, second_half_e2el_ms=11900.0)},
        {"server": replace(TOLD, prefill_cached_tokens=512 * 16.0)},
    ],
)
def test_what_is_just_inside_a_limit_is_no_doubt(tmp_path: Path, changes: dict[str, Any]) -> None:
    row = row_of(completed_run(tmp_path / "r", **changes))
    assert (row["verdict"], row["reasons"]) == ("VALID", "")


def planned(**more: Any) -> dict[str, Any]:
    """run.json whose one point was sent or made in another way."""
    return run_json(plan=plan(points=[{"index": 0, "concurrency": 64} | more]))


def test_requests_sent_by_the_clock_need_not_fill_the_concurrency(tmp_path: Path) -> None:
    idle = point(e2el_ms=Latency(mean=400.0))
    for name, more in (("rate", {"sending": {"request_rate": 5.0}}), ("closed", {})):
        row = row_of(write_run(tmp_path / name, planned(**more), [idle]))
        assert row["verdict"] == ("VALID" if name == "rate" else "SUSPECT")


def test_prompts_that_share_are_in_the_cache_and_have_lengths_of_their_own(tmp_path: Path) -> None:
    told = replace(TOLD, prefill_cached_tokens=512 * 3000.0, prefill_prompt_tokens=512 * 9000.0,
                   decode_external_tokens=512 * 8990.0)  # fmt: skip
    shared = point(total_input_tokens=512 * 9000, server=told)
    for name in ("shared_prefix", "random"):
        row = row_of(write_run(tmp_path / name, planned(prompts={"source": name}), [shared]))
        assert row["verdict"] == ("VALID" if name == "shared_prefix" else "INVALID")


def test_a_doubt_and_a_missing_proof_are_both_told(tmp_path: Path) -> None:
    doubtful = point(server=replace(TOLD, preemptions=7.0))
    row = row_of(write_run(tmp_path / "r", run_json(plan=plan(accuracy=None)), [doubtful], []))
    assert row["verdict"] == "SUSPECT"
    assert "7 preemptions" in row["reasons"]
    assert "accuracy not run" in row["reasons"]


def nodes_told(path: Path, *problems: dict[str, Any]) -> dict[str, Any]:
    """The row of a run whose preflight found these."""
    run_dir = completed_run(path)
    write_json(RunDir(path).preflight_record, {"problems": list(problems)})
    return row_of(run_dir)


def test_nodes_with_too_few_cpus_stay_beside_the_result(tmp_path: Path) -> None:
    few: dict[str, Any] = {
        **{"check": "CPUs", "state": "warned", "nodes": ["gb200-01", "gb200-02"]},
        "value": "2 for 4 GPUs: results will be CPU bound",
    }
    row = nodes_told(tmp_path / "r", few, {**few, "check": "locked memory"})
    assert row["verdict"] == "SUSPECT"
    assert row["reasons"] == f"CPUs on gb200-01, gb200-02: {few['value']}"
    assert nodes_told(tmp_path / "fine", {**few, "state": "failed"})["verdict"] == "VALID"


def test_answers_without_a_number_in_a_score_that_passes_are_a_doubt(tmp_path: Path) -> None:
    odd = [repeat(n, correct=1161, invalid=100) for n in range(5)]
    row = row_of(write_run(tmp_path / "r", repeats=odd))
    assert (row["verdict"], "7.6% of the answers hold no number" in row["reasons"]) == (
        "SUSPECT",
        True,
    )


def test_answers_cut_off_make_a_passing_score_invalid_as_well(tmp_path: Path) -> None:
    cut = [repeat(n, correct=1161, invalid=0, cut=90) for n in range(5)]
    row = row_of(write_run(tmp_path / "r", repeats=cut))
    assert row["verdict"] == "INVALID"
    assert "7% of the answers ended at the token limit (finish reason length)" in row["reasons"]


def test_an_exact_output_length_is_what_was_asked_for(tmp_path: Path) -> None:
    fixed: dict[str, Any] = {
        "range_ratio": 1.0, "input_range": [8192, 8192], "output_range": [1024, 1024],
        "total_input_tokens": 512 * 8192, "total_output_tokens": 512 * 1024,
        "server": ServerCounters(
            decode_external_tokens=512 * 8191.0, prefill_prompt_tokens=512 * 8192.0
        ),
    }  # fmt: skip
    assert row_of(completed_run(tmp_path / "r", **fixed))["verdict"] == "VALID"


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
            server=ServerCounters(
                decode_external_tokens=512 * measured, prefill_prompt_tokens=512 * measured
            ),
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
