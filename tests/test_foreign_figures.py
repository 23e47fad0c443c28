"""What other tools' files leave out, write as 0, as text or twice: the right row all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.load import load
from tests.test_foreign import result, row_of

Capture = pytest.CaptureFixture[str]
SHORT: dict[str, Any] = {"num_prompts": 512, "completed": 500, "total_input_tokens": 500000,
                         "total_output_tokens": 50000, "request_throughput": 5.0}  # fmt: skip


def without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in names}


@pytest.mark.parametrize(
    "data",
    [
        result(**SHORT | {"failed": None}),
        result(**SHORT | {"failed": "12"}),
        result(**SHORT | {"failed": -12}),
        result(**SHORT | {"failed": 12.0, "completed": 500.0}),
        without(result(**SHORT, errors=["Timeout"] * 12 + [""] * 500), "num_prompts", "failed"),
        without(result(**SHORT, output_lens=[100] * 500 + [0] * 12), "num_prompts", "failed"),
        without(result(**SHORT | {"failed": 12}), "num_prompts"),
        result(**SHORT | {"failed": 12, "error_counts": {"x": "many", "y": None}}),
    ],
)
def test_failed_requests_are_found_however_they_are_told(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    row = row_of(tmp_path, data)
    assert (row["num_prompts"], row["failed"], row["verdict"]) == (512, 12, "INVALID")


def test_of_requests_that_all_failed_nothing_is_a_figure(tmp_path: Path) -> None:
    zeros = {f"{k}_{m}_ms": 0.0 for m in ("ttft", "tpot", "itl") for k in ("mean", "median", "p99")}
    row = row_of(tmp_path, result(**zeros, completed=0, failed=512, total_input_tokens=0,
                                  total_output_tokens=0, request_throughput=0.0))  # fmt: skip
    assert "nothing completed" in row["reasons"]
    assert [name for name in row if name.endswith("_ms") and not pd.isna(row[name])] == []


UNSEEN: dict[str, dict[str, Any]] = {
    "mean 0": {"mean_ttft_ms": 0.0},
    "median 0": {"median_ttft_ms": 0.0},
    "half of the requests": {"ttfts": [0.0] * 256 + [0.4] * 256, "output_lens": [100] * 512},
    "no tokens at all": {"mean_ttft_ms": 0, "total_output_tokens": 0},
}


@pytest.mark.parametrize("changes", UNSEEN.values(), ids=UNSEEN)
def test_a_ttft_with_zeros_in_it_takes_what_comes_from_it_along(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    row = row_of(tmp_path, result(**changes))
    assert [n for n in row if n[:4] in ("ttft", "tpot", "itl_") and not pd.isna(row[n])] == []
    assert row["requests_per_s"] == 5.12


@pytest.mark.parametrize("told", ["absent", "null"])
def test_a_ttft_that_was_not_asked_for_says_nothing_against_the_others(
    tmp_path: Path, told: str
) -> None:
    names = [name for name in result() if name.endswith("_ttft_ms")]
    data = result(**dict.fromkeys(names)) if told == "null" else without(result(), *names)
    row = row_of(tmp_path, data)
    assert (row["tpot_median_ms"], row["itl_p99_ms"]) == (12.0, 12.0)
    assert pd.isna(row["ttft_mean_ms"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"total_output_tokens": 20000}, "early stop: mean output length 39.1"),
        ({"total_output_tokens": 61440}, "mean output length 120.0 is not that of 100..100"),
        ({"total_output_tokens": 0}, "without a single output token"),
        ({"total_input_tokens": 0}, "without a single input token"),
        ({"random_range_ratio": 1.0}, "range ratio 1 has no meaning in definition 'vllm'"),
        ({"random_range_ratio": "1.0"}, "range ratio 1 has no meaning in definition 'vllm'"),
    ],
)
def test_lengths_that_are_not_those_asked_for_void_a_row(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    lengths = {"random_input_len": 1000, "random_output_len": 100}
    row = row_of(tmp_path, result(**lengths | changes))
    assert row["verdict"] == "INVALID"
    assert words in row["reasons"]


@pytest.mark.parametrize(
    ("ratio", "ends"),
    [(0.8, "800..1000"), ("0.5", "500..1000"), (0, "0..1000"), (1.0, "1000..1000"), (None, None)],
)
def test_sglang_means_the_lower_end_by_the_flag_that_vllm_means_both_by(
    tmp_path: Path, ratio: Any, ends: str | None
) -> None:
    mean = 1000 if ratio is None else int((1 + float(ratio)) * 500)
    data = result(random_input_len=1000, random_range_ratio=ratio, sharegpt_output_len=None,
                  total_input_tokens=512 * mean, mean_e2e_latency_ms=12000.0)  # fmt: skip
    row = row_of(tmp_path, without(data, "num_prompts", "failed"))
    assert (row["client"], row["range_definition"]) == ("sglang.bench_serving", "inferencemax")
    assert (None if pd.isna(row["input_range"]) else row["input_range"]) == ends
    assert (row["verdict"], row["e2el_mean_ms"]) == ("UNPROVEN", 12000.0)


@pytest.mark.parametrize("told", [{"input": 0.5, "output": 0.0}, [0.5], "half"])
def test_a_ratio_of_another_form_is_no_ratio_and_not_the_default(tmp_path: Path, told: Any) -> None:
    row = row_of(tmp_path, result(random_input_len=2000, random_range_ratio=told))
    assert pd.isna(row["input_range"])
    assert row["verdict"] == "UNPROVEN"


@pytest.mark.parametrize(
    ("changes", "concurrency", "flagged"),
    [
        ({"request_rate": 10.0, "max_concurrent_requests": 20}, 64, False),
        ({"request_rate": "10", "max_concurrent_requests": 20}, 64, False),
        ({"request_rate": 10.0, "max_concurrency": None}, None, False),
        ({"max_concurrency": None}, 64, False),
        ({"max_concurrency": "64"}, 64, False),
        ({"max_concurrent_requests": 58}, 64, False),
        ({"max_concurrent_requests": 57}, 64, True),
    ],
)
def test_a_load_sent_by_the_clock_owes_no_concurrency(
    tmp_path: Path, changes: dict[str, Any], concurrency: int | None, flagged: bool
) -> None:
    row = row_of(tmp_path, result(**changes))
    assert (None if pd.isna(row["concurrency"]) else row["concurrency"]) == concurrency
    assert ("saturated" in row["reasons"]) is flagged


def test_a_first_wave_is_told_without_start_times_by_the_order(tmp_path: Path) -> None:
    row = row_of(tmp_path, result(ttfts=[8.0] * 64 + [0.2] * 448, output_lens=[100] * 512))
    assert (row["ttft_first_wave_mean_ms"], row["ttft_later_mean_ms"]) == (
        8000.0,
        pytest.approx(200),
    )
    assert "cold first wave" in row["reasons"]


@pytest.mark.parametrize("absent", ["total_input_tokens", "total_output_tokens"])
def test_a_total_that_is_missing_is_a_cell_that_is_missing(tmp_path: Path, absent: str) -> None:
    row = row_of(tmp_path, without(result(), absent))
    assert (row["output_tps"], row["completed"], row["ttft_mean_ms"]) == (512.0, 512, 200.0)
    assert row["total_tps"] == 5632.0
    assert row["verdict"] == "UNPROVEN"


def test_percentiles_in_an_object_are_read_too(tmp_path: Path) -> None:
    told = {"50": 180.0, "99": 151.0, "x": 1.0}
    row = row_of(tmp_path, without(result(percentiles_ttft_ms=told), "p99_ttft_ms"))
    assert row["ttft_p99_ms"] == 151.0


@pytest.mark.parametrize("rest", ['{"completed": 5', "NUL\0", "]]"])
def test_what_is_torn_behind_a_whole_result_costs_a_line(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "x.jsonl"
    whole = json.dumps(result())
    path.write_text(f"{whole}\r\n{rest}\n{whole}\n")
    loaded = load([path])
    assert (len(loaded.runs[0].points), len(loaded.warnings)) == (2, 1)


def test_a_key_with_two_values_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"completed": 9, ' + json.dumps(result())[1:])
    with pytest.raises(AnalysisError, match="'completed' stands there twice"):
        load([tmp_path / "x.json"])


ANSWERS = [{"label": n, "text": f"The answer is {n}.", "error": None} for n in range(10, 30)]


@pytest.mark.parametrize(
    ("changes", "shown", "words"),
    [
        ({}, (1.0, 20, 0, "UNPROVEN"), "accuracy alone"),
        ({3: {"text": "", "error": "TimeoutError"}}, (1.0, 19, 1, "INVALID"), "never got"),
        ({5: {"text": "The answer is 16."}}, (0.95, 20, 0, "UNPROVEN"), "accuracy alone"),
        ({n: {"text": None, "finish_reason": "length"} for n in range(4)},
         (0.8, 20, 0, "INVALID"), "4 of 20 answers ended at the token limit"),
        ({n: {"error": "refused"} for n in range(20)}, (None, 0, 20, "INVALID"), "20 of 20"),
    ],
)  # fmt: skip
def test_answers_kept_one_by_one_are_scored_and_lost_ones_are_not(
    tmp_path: Path, changes: dict[int, Any], shown: tuple[Any, ...], words: str
) -> None:
    lines = [json.dumps(each | changes.get(n, {})) for n, each in enumerate(ANSWERS)]
    row = row_of(tmp_path, "\n".join(lines), "samples.jsonl")
    score = None if pd.isna(row["accuracy"]) else row["accuracy"]
    told = (score, row["accuracy_answers"], row["accuracy_transport_failures"], row["verdict"])
    assert told == shown
    assert words in row["reasons"]


def test_lm_evals_samples_count_each_question_once(tmp_path: Path) -> None:
    lines = [{"doc_id": n, "filter": way, "target": f"so\n#### 1,{n:03}", "resps": [[f"1{n:03}"]]}
             for n in range(3) for way in ("strict-match", "flexible-extract")]  # fmt: skip
    row = row_of(tmp_path, "\n".join(map(json.dumps, lines)), "samples.jsonl")
    assert (row["accuracy"], row["accuracy_answers"], row["accuracy_strict"]) == (1.0, 3, 0.0)


def test_lm_evals_result_is_a_score_of_another_protocol(tmp_path: Path) -> None:
    told = {"exact_match,strict-match": 0.95, "exact_match,flexible-extract": 0.96}
    data = {"results": {"gsm8k": told}, "n-samples": {"gsm8k": {"effective": 1319}}}
    row = row_of(tmp_path, data)
    assert (row["accuracy"], row["accuracy_strict"], row["verdict"]) == (0.96, 0.95, "UNPROVEN")
    assert "not comparable" in row["reasons"]


@pytest.mark.parametrize(
    "changes", [{"accuracy": 95.0}, {"invalid_rate": 12.0}, {"accuracy": 1.0000001}]
)
def test_per_cent_is_no_share(tmp_path: Path, capsys: Capture, changes: dict[str, float]) -> None:
    summary = {"accuracy": 0.9, "invalid_rate": 0.0, "num_questions": 1319} | changes
    (tmp_path / "x.json").write_text(json.dumps(summary))
    assert main(["table", str(tmp_path / "x.json")]) == 2
    assert "is no share; expected 0 to 1, not per cent" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"accuracy": None}, {"num_questions": 0}])
def test_a_score_of_nothing_is_none(tmp_path: Path, changes: dict[str, Any]) -> None:
    summary = {"accuracy": 0.9, "invalid_rate": 0.0, "num_questions": 1319} | changes
    assert row_of(tmp_path, summary)["verdict"] == "INVALID"


APART = {"total_tps_per_gpu": 4915.2, "output_tps_per_gpu": 546.1333, "input_tps_per_prefill_gpu":
         13107.2, "output_tps_per_decode_gpu": 819.2}  # fmt: skip
APART_RESULT: dict[str, Any] = {"duration": 200.0, "num_prompts": 2560, "completed": 2560,
        "total_input_tokens": 20971520,
        "total_output_tokens": 2621440, "request_throughput": 12.8}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "figures"),
    [
        ({"prefill_gpus": 8, "decode_gpus": 16}, APART),
        ({"prefill_gpus": "8", "decode_gpus": "16", "gpus": 24}, APART),
        ({"gpus": 24, "allocated_gpus": 32},
         {"total_tps_per_gpu": 4915.2, "total_tps_per_allocated_gpu": 3686.4,
          "output_tps_per_decode_gpu": None, "input_tps_per_prefill_gpu": None}),
        ({"decode_gpus": 16}, {"output_tps_per_decode_gpu": 819.2, "total_tps_per_gpu": None}),
        ({}, dict.fromkeys(APART)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["files", "metadata"])
def test_gpus_that_a_tool_does_not_know_are_told_beside_it(
    tmp_path: Path, place: str, told: dict[str, Any], figures: dict[str, float | None]
) -> None:
    if place == "files":
        beside = {"gpus": 24, "files": {"x.json": told}} if "gpus" in told else told
        (tmp_path / "told.json").write_text(json.dumps(beside))
    row = row_of(tmp_path, result(**APART_RESULT | (told if place == "metadata" else {})))
    for name, value in figures.items():
        assert (None if pd.isna(row[name]) else round(row[name], 4)) == value, name


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ('{"prefill": 8}', "key 'prefill'"),
        ('{"gpus": 0}', "expected a number above 0"),
        ('{"gpus": true}', "expected a number above 0"),
        ('{"topology": 8}', "expected a text"),
        ('{"files": []}', "expected an object of file names"),
        ("[]", "expected an object"),
        ("{", "cannot be read"),
    ],
)
def test_what_is_told_beside_and_not_understood_is_one_error(
    tmp_path: Path, told: str, words: str
) -> None:
    (tmp_path / "told.json").write_text(told)
    (tmp_path / "x.json").write_text(json.dumps(result()))
    with pytest.raises(AnalysisError, match=words):
        load([tmp_path / "x.json"])


def test_what_is_told_beside_is_no_result_itself_and_lengths_are_held_to_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "told.json").write_text('{"random_input_len": 1200, "topology": "dep8"}')
    (tmp_path / "x.json").write_text(json.dumps(result()))
    loaded = load(sorted(tmp_path.glob("*.json")))
    assert (len(loaded.runs), loaded.warnings) == (1, [])
    row = row_of(tmp_path, result())
    assert (row["topology"], row["verdict"]) == ("dep8", "INVALID")
    assert "mean input length 1000.0 is not that of 1200..1200" in row["reasons"]
