"""Results of other tools that only their names and a key or two tell apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.facts import tidy
from analysis.foreign_names import named_by
from analysis.load import load
from analysis.metrics import compute_all

RESULT: dict[str, Any] = {
    "backend": "vllm", "model_id": "m", "num_prompts": 160, "max_concurrency": 16,
    "request_rate": "inf", "duration": 100.0, "completed": 160, "total_input_tokens": 160 * 7373,
    "total_output_tokens": 160 * 922, "request_throughput": 1.6, "request_goodput:": None,
    "mean_ttft_ms": 185.0, "median_ttft_ms": 104.0, "mean_tpot_ms": 9.0, "median_tpot_ms": 9.0,
}  # fmt: skip
AGGREGATE: dict[str, Any] = {
    "hw": "gb200", "conc": 32, "image": "vllm:v0.21.0", "model": "m", "framework": "vllm",
    "precision": "fp4", "spec_decoding": "mtp", "disagg": False, "isl": 8192, "osl": 1024, "tp": 8,
    "tput_per_gpu": 157.0, "output_tput_per_gpu": 17.0, "median_ttft": 1.8, "median_tpot": 0.23,
}  # fmt: skip


def row(path: Path, data: dict[str, Any]) -> pd.Series[Any]:
    """The only row of a file with this result."""
    path.write_text(json.dumps(data))
    frame = compute_all(tidy(load([path])))
    assert len(frame) == 1
    return frame.iloc[0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("results_concurrency_64_gpus_24_ctx_16_gen_8.json", (24, 16, 8, None, None)),
        ("concurrency_16_req_rate_inf_gpus_16_ctx_8_gen_8.json", (16, 8, 8, None, None)),
        (
            "k_8k1k_int4_vllm_tp8-ep1-dpafalse_disagg-false_conc32_r.json",
            (8, None, None, 8192, 1024),
        ),
        (
            "k_1k8k_fp4_vllm_tp4-ep4-dpatrue_disagg-true_conc32_r.json",
            (None, None, None, 1024, 8192),
        ),
        ("mtp_tp4_conc64_isl8192_osl1024.json", (None, None, None, 8192, 1024)),
        ("openai-infqps-concurrency16-m-20260101-000000.json", (None,) * 5),
    ],
)
def test_a_name_tells_gpus_and_lengths_or_nothing(name: str, told: tuple[int | None, ...]) -> None:
    named = named_by(Path("/x") / name)
    assert (named.gpus, named.prefill, named.decode, named.isl, named.osl) == told


@pytest.mark.parametrize(
    ("name", "more", "client", "definition"),
    [
        ("r.json", {"benchmark_start_time_unix": 1.0}, "InferenceX bench_serving", "inferencemax"),
        ("concurrency_16_req_rate_inf_gpus_16_ctx_8_gen_8.json", {}, "InferenceX bench_serving",
         "inferencemax"),
        ("results_concurrency_16_gpus_16_ctx_8_gen_8.json", {"benchmark_start_time_unix": 1.0},
         "sa-bench", "inferencemax"),
        ("r.json", {}, "benchmark_serving.py", None),
        ("r.json", {"request_goodput": None}, "benchmark_serving.py", None),
    ],
)  # fmt: skip
def test_the_script_of_before_is_told_from_its_forks_and_claims_no_range(
    tmp_path: Path, name: str, more: dict[str, Any], client: str, definition: str | None
) -> None:
    found = row(tmp_path / name, RESULT | more)
    assert found["client"] == client
    told = found["range_definition"]
    assert told == definition if definition else pd.isna(told)


def test_a_file_says_by_itself_that_servers_were_stand_ins_and_where_lengths_are_from(
    tmp_path: Path,
) -> None:
    kept = {"random_input_len": "8192", "random_output_len": "1024", "random_range_ratio": "0.8",
            "range_definition": "inferencemax", "rehearsal": "true"}  # fmt: skip
    found = row(tmp_path / "r.json", RESULT | kept)
    assert found["verdict"] == "REHEARSAL"
    assert (found["range_definition"], found["input_range"]) == ("inferencemax", "6553..8192")
    del kept["rehearsal"]
    assert row(tmp_path / "s.json", RESULT | kept)["verdict"] == "UNPROVEN"


def test_goodput_under_the_old_key_is_a_share_of_all_requests(tmp_path: Path) -> None:
    found = row(tmp_path / "r.json", RESULT | {"request_goodput:": 1.2})
    assert found["goodput_share"] == pytest.approx(1.2 * 100 / 160)
    assert found["request_goodput"] == pytest.approx(1.2)


def test_an_aggregates_precision_speculation_and_image_stand_in_its_row(tmp_path: Path) -> None:
    found = row(tmp_path / "agg_x.json", AGGREGATE)
    assert (found["engine"], found["flags"]) == ("vllm vllm:v0.21.0", "fp4 spec mtp")
    assert (found["serving_gpus"], found["total_tps"]) == (8, 8 * 157.0)
    assert row(tmp_path / "b.json", AGGREGATE | {"num_gpus": 16})["serving_gpus"] == 16


def test_aiperfs_good_requests_are_a_share_of_those_sent(tmp_path: Path) -> None:
    export = {
        "request_throughput": {"avg": 5.0}, "time_to_first_token": {"avg": 100.0, "p50": 90.0},
        "request_count": {"avg": 90}, "error_request_count": {"avg": 0},
        "good_request_count": {"avg": 45}, "benchmark_duration": {"avg": 18.0},
        "input_config": {"loadgen": {"request_rate": 5.0}},
    }  # fmt: skip
    found = row(tmp_path / "profile_export_aiperf.json", export)
    assert (found["goodput_share"], found["request_goodput"]) == (0.5, 2.5)
    assert found["request_rate"] == 5.0
