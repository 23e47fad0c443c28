"""Other tools' results in the same table, judged by the same rules; faults seen in the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.load import load
from analysis.point import expected_range
from tests.analysis_runs import completed_run
from tests.test_analysis_metrics import frame_of

Capture = pytest.CaptureFixture[str]


def result(**changes: Any) -> dict[str, Any]:
    """A faultless result of `vllm bench serve`: 8 requests a stream, 1,000 tokens in, 100 out."""
    figures = {f"{k}_{m}_ms": v for m, v in (("ttft", 200.0), ("tpot", 12.0), ("itl", 12.0))
               for k in ("mean", "median", "p99")}  # fmt: skip
    return {
        "date": "20260801-101500", "backend": "openai", "model_id": "m", "num_prompts": 512,
        "request_rate": "inf", "max_concurrency": 64, "duration": 100.0, "completed": 512,
        "failed": 0, "total_input_tokens": 512000, "total_output_tokens": 51200,
        "request_throughput": 5.12, "output_throughput": 512.0, "total_token_throughput": 5632.0,
        "max_output_tokens_per_s": 700.0, "max_concurrent_requests": 64,
    } | figures | changes  # fmt: skip


def row_of(folder: Path, data: Any, name: str = "x.json") -> dict[str, Any]:
    """The only row of a file with that value in it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    frame = frame_of(path)
    assert len(frame) == 1
    return {str(key): value for key, value in frame.iloc[0].items()}


def test_a_result_stands_beside_our_own_rows(tmp_path: Path, capsys: Capture) -> None:
    ours = completed_run(tmp_path / "r")
    (tmp_path / "old.json").write_text(json.dumps(result()))
    columns = "client,concurrency,total_tps,total_tps_per_gpu,range_definition,verdict,outcome"
    words = ["--columns", columns, "--format", "csv"]
    assert main(["table", str(tmp_path / "old.json"), str(ours), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "vllm bench serve,64,5632.0,,vllm,UNPROVEN,foreign" in lines
    assert any(line.startswith("native,64,") and ",VALID," in line for line in lines)


def test_what_a_tool_does_not_tell_is_missing_and_never_zero(tmp_path: Path) -> None:
    row = row_of(tmp_path, result())
    for name in ("isl", "osl", "input_range", "range_ratio", "seed", "total_tps_per_gpu",
                 "e2el_mean_ms", "external_kv_share", "accuracy"):  # fmt: skip
        assert pd.isna(row[name]), name
    assert "the client's figures alone" in row["reasons"]


@pytest.mark.parametrize("absent", [False, True])
def test_requests_that_failed_void_a_row_also_where_the_tool_does_not_count_them(
    tmp_path: Path, absent: bool
) -> None:
    data = result(num_prompts=640, completed=628, failed=12, total_output_tokens=643072,
                  total_input_tokens=643072, request_throughput=6.28)  # fmt: skip
    if absent:
        del data["failed"]
    row = row_of(tmp_path, data)
    assert (row["completed"], row["failed"], row["verdict"]) == (628, 12, "INVALID")
    assert row["success_rate"] == pytest.approx(0.9812, abs=1e-4)
    assert row["total_tps"] == pytest.approx(2 * 6430.72)


def test_a_first_token_that_took_no_time_was_not_measured(tmp_path: Path) -> None:
    zero = {f"{k}_{m}_ms": 0.0 for m in ("ttft", "itl") for k in ("mean", "median", "p99")}
    row = row_of(tmp_path, result(**zero, mean_tpot_ms=58.6, median_tpot_ms=58.6))
    missing = ("ttft_mean_ms", "ttft_median_ms", "itl_mean_ms", "tpot_mean_ms", "tpot_median_ms")
    assert all(pd.isna(row[name]) for name in missing)
    assert row["total_tps"] == 5632.0
    assert "TTFT 0 with tokens means not measured" in row["notes"]


@pytest.mark.parametrize(
    ("asked", "mean", "flagged"),
    [(8192, 8180.0, False), (10000, 5827.5, True), (8192, 8214, False)],
)
def test_prompts_of_another_length_than_asked_are_told(
    tmp_path: Path, asked: int, mean: float, flagged: bool
) -> None:
    data = result(random_input_len=asked, random_output_len=100, total_input_tokens=int(512 * mean))
    row = row_of(tmp_path, data)
    assert row["mean_input_tokens"] == pytest.approx(mean, abs=0.01)
    assert (row["verdict"] == "INVALID") is flagged
    assert ("not comparable" in row["reasons"]) is flagged


def test_a_concurrency_that_was_never_reached_is_the_clients_fault(tmp_path: Path) -> None:
    data = result(max_concurrency=4096, num_prompts=16384, completed=16384, duration=400.0,
                  max_concurrent_requests=1371, request_throughput=40.96)  # fmt: skip
    row = row_of(tmp_path, data)
    assert row["verdict"] == "SUSPECT"
    assert "client or frontend saturated: 1371 requests in flight at most, 4096" in row["reasons"]


def test_waiting_in_the_client_is_outside_ttft_and_told(tmp_path: Path) -> None:
    waits = [0.4 * n for n in range(8)]
    data = result(max_concurrency=1, max_concurrent_requests=1, num_prompts=800, completed=800,
                  queue_times=waits, total_output_tokens=102400, total_input_tokens=819200,
                  request_throughput=8.0)  # fmt: skip
    row = row_of(tmp_path, data)
    assert row["verdict"] == "SUSPECT"
    assert "client queueing: requests waited 1400 ms in the client on average" in row["reasons"]


def test_a_first_wave_that_paid_for_compilation_is_told_and_both_means_are_kept(
    tmp_path: Path,
) -> None:
    cold = [8.0 + 0.06 * n for n in range(16)]
    warm = [0.18 + 0.001 * (n % 20) for n in range(144)]
    starts = [100.0] * 16 + [109.0 + n // 16 for n in range(144)]
    data = result(num_prompts=160, completed=160, max_concurrency=16, max_concurrent_requests=16,
                  mean_ttft_ms=1015.35, ttfts=cold + warm, start_times=starts,
                  request_throughput=1.6)  # fmt: skip
    row = row_of(tmp_path, data)
    assert row["verdict"] == "SUSPECT"
    assert "cold first wave" in row["reasons"]
    assert row["ttft_mean_ms"] == 1015.35
    assert row["ttft_later_mean_ms"] == pytest.approx(189.2778, abs=1e-4)


def test_older_names_and_other_percentiles_are_read_and_absent_ones_stay_missing(
    tmp_path: Path,
) -> None:
    few = {k: v for k, v in result(p90_ttft_ms=400.0).items() if "p99" not in k and "itl" not in k}
    row = row_of(tmp_path, few)
    assert (row["ttft_p90_ms"], row["mean_input_tokens"]) == (400.0, 1000.0)
    assert pd.isna(row["ttft_p99_ms"])
    assert pd.isna(row["itl_median_ms"])
    old = {k: v for k, v in result().items() if "p99" not in k and not k.startswith("total_")}
    old |= {"total_input": 512000, "total_output": 51200, "percentiles_ttft_ms": [[50.0, 180.0],
            [99.0, 151.0]], "percentiles_itl_ms": [[99.0, 25.0]]}  # fmt: skip
    row = row_of(tmp_path, old)
    assert (row["ttft_p99_ms"], row["itl_p99_ms"], row["total_tps"]) == (151.0, 25.0, 5632.0)


@pytest.mark.parametrize(
    ("definition", "ratio", "ends"),
    [("vllm", 0.2, (6553, 9831)), ("inferencemax", 0.8, (6553, 8192)), ("vllm", 0.0, (8192, 8192)),
     ("inferencemax", 0.0, (0, 8192)), ("inferencemax", 1.0, (8192, 8192)), ("vllm", 1.0, None)],
)  # fmt: skip
def test_one_flag_means_other_ranges_in_other_tools(
    definition: str, ratio: float, ends: tuple[int, int] | None
) -> None:
    assert expected_range(definition, 8192, ratio) == ends


def test_sa_bench_names_its_gpus_lengths_and_range(tmp_path: Path) -> None:
    data = result(peak_output_tokens_per_s=900.0, duration=200.0, completed=2560, num_prompts=2560,
                  total_input_tokens=20971520, total_output_tokens=2621440, max_concurrency=512,
                  max_concurrent_requests=512, request_throughput=12.8)  # fmt: skip
    del data["failed"]
    name = "sa-bench_isl_8192_osl_1024/results_concurrency_512_gpus_24_ctx_8_gen_16.json"
    row = row_of(tmp_path, data, name)
    assert (row["client"], row["range_definition"], row["isl"]) == (
        "sa-bench",
        "inferencemax",
        8192,
    )
    assert row["total_tps_per_gpu"] == pytest.approx(4915.2)
    assert row["output_tps_per_gpu"] == pytest.approx(546.1333, abs=1e-4)
    assert row["output_tps_per_decode_gpu"] == pytest.approx(819.2)
    assert row["input_tps_per_prefill_gpu"] == pytest.approx(13107.2)


def test_inferencex_divides_output_by_decode_gpus_and_counts_in_seconds(tmp_path: Path) -> None:
    data = {"hw": "gb200", "conc": 512, "model": "m", "framework": "dynamo-vllm", "disagg": True,
            "num_prefill_gpu": 8, "num_decode_gpu": 16, "isl": 8192, "osl": 1024,
            "tput_per_gpu": 4915.2, "output_tput_per_gpu": 819.2, "input_tput_per_gpu": 13107.2,
            "mean_ttft": 0.21, "median_tpot": 0.0125, "p99_e2el": 15.0}  # fmt: skip
    row = row_of(tmp_path, data)
    assert (row["client"], row["verdict"], row["serving_gpus"]) == ("InferenceX", "UNPROVEN", 24)
    assert (row["total_tps_per_gpu"], row["output_tps_per_decode_gpu"]) == (4915.2, 819.2)
    assert row["total_tps"] == pytest.approx(117964.8)
    assert (row["ttft_mean_ms"], row["e2el_p99_ms"]) == (210.0, 15000.0)
    assert row["generation_tps_per_user"] == pytest.approx(80.0)
    assert pd.isna(row["output_tps_per_gpu"])
    assert pd.isna(row["failed"])
    alone = row_of(tmp_path, {"conc": 4, "tp": 8, "tput_per_gpu": 10.0, "output_tput_per_gpu": 2.0})
    assert (alone["serving_gpus"], alone["output_tps_per_gpu"]) == (8, 2.0)


def test_a_rollup_and_an_aiperf_export_are_rows(tmp_path: Path) -> None:
    run = {"concurrency": 64, "request_throughput": 5.12, "completed_requests": 512,
           "total_input_tokens": 512000, "total_output_tokens": 51200,
           "ttft_mean_ms": 200.0}  # fmt: skip
    row = row_of(tmp_path, {"benchmark_type": "sa-bench", "config": {"isl": 1024}, "runs": [run]})
    assert (row["total_tps"], row["isl"], row["ttft_mean_ms"]) == (
        pytest.approx(5632.0),
        1024,
        200.0,
    )
    export = {"request_throughput": {"avg": 5.0, "unit": "requests/sec"},
              "time_to_first_token": {"avg": 210.0, "p50": 180.0, "p99": 900.0, "unit": "ms"},
              "inter_token_latency": {"avg": 12.5, "p50": 12.0}, "request_count": {"avg": 500.0},
              "error_request_count": {"avg": 12.0}, "total_token_throughput": {"avg": 5000.0},
              "input_config": {"loadgen": {"concurrency": 64}}}  # fmt: skip
    row = row_of(tmp_path, export)
    assert (row["client"], row["concurrency"], row["total_tps"]) == ("aiperf", 64, 5000.0)
    assert (row["tpot_median_ms"], row["failed"], row["verdict"]) == (12.0, 12, "INVALID")


def test_a_gsm8k_summary_with_many_invalid_answers_is_no_score(tmp_path: Path) -> None:
    summary = {"accuracy": 0.812, "invalid_rate": 0.12, "num_questions": 1319, "max_tokens": 256}
    row = row_of(tmp_path, summary)
    assert (row["verdict"], row["accuracy"]) == ("INVALID", 0.812)
    assert "12% of the answers are invalid without a reason" in row["reasons"]
    good = row_of(tmp_path, summary | {"accuracy": 0.88, "invalid_rate": 0.002})
    assert good["verdict"] == "UNPROVEN"
    assert good["accuracy_half_width"] == pytest.approx(0.0175, abs=1e-4)


@pytest.mark.parametrize("form", ["array", "lines", "appended", "comma"])
def test_one_file_may_hold_many_results(tmp_path: Path, form: str) -> None:
    both = [json.dumps(result(max_concurrency=c, max_concurrent_requests=c)) for c in (32, 64)]
    texts = {"array": f"[{','.join(both)}]", "lines": "\n".join(both) + "\n",
             "appended": both[0] + both[1], "comma": "\ufeff" + ",\n".join(both)}  # fmt: skip
    path = tmp_path / "all.json"
    path.write_text(texts[form])
    assert list(frame_of(path)["concurrency"]) == [32, 64]


def test_one_bad_result_among_many_costs_a_line(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    lines = [result(), result(completed=600), {"a": 1}, result(duration=-1.0), [1], result()]
    path.write_text("\n".join(map(json.dumps, lines)).replace("[1]", "7"))
    loaded = load([path])
    assert len(loaded.runs[0].points) == 2
    assert (len(loaded.warnings), loaded.lost_records) == (4, 4)
    assert "all.jsonl#2" in loaded.warnings[0] or "only 512 were planned" in loaded.warnings[0]


def test_a_mean_of_nothing_is_missing(tmp_path: Path) -> None:
    text = json.dumps(result()).replace(": 12.0", ": NaN")
    assert pd.isna(row_of(tmp_path, text)["tpot_median_ms"])


@pytest.mark.parametrize(
    "content", [b"", b"{", b"hello", b"\xff\xfe\x00", b"[]", b'{"a": 1}', b"[" * 100_000]
)
def test_a_file_that_is_no_result_is_one_error_that_names_what_is_known(
    tmp_path: Path, capsys: Capture, content: bytes
) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert main(["table", str(tmp_path / "x.json")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), "x.json" in shown.err) == ("", 1, True)


def test_an_unknown_file_says_which_results_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"lr": 0.1}')
    with pytest.raises(AnalysisError, match="vllm bench serve or sa-bench"):
        load([tmp_path / "x.json"])
