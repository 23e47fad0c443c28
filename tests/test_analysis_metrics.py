"""Columns against arithmetic done by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.facts import tidy
from analysis.intervals import t_interval, t_quantile, wilson
from analysis.load import load
from analysis.metrics import METRICS, compute_all
from analysis.point import expected_range
from jobs.records import Latency, ServerCounters
from tests.analysis_runs import completed_run, plan, point, repeat, run_json, write_run


def frame_of(*folders: Path) -> pd.DataFrame:
    """The table's frame of these run directories."""
    return compute_all(tidy(load(folders)))


def row_of(folder: Path) -> dict[str, Any]:
    """The only row of a run."""
    frame = frame_of(folder)
    assert len(frame) == 1
    return {str(name): value for name, value in frame.iloc[0].items()}


def test_every_kind_of_gpu_divides_its_own_tokens(tmp_path: Path) -> None:
    record = point(
        num_prompts=2560,
        completed=2560,
        duration_s=200.0,
        total_input_tokens=20971520,
        total_output_tokens=2621440,
    )
    folder = write_run(tmp_path / "r", run_json(plan=plan(8, 16, 32)), [record])
    row = row_of(folder)
    assert row["total_tps"] == pytest.approx(117964.8)
    assert row["total_tps_per_gpu"] == pytest.approx(4915.2)
    assert row["total_tps_per_allocated_gpu"] == pytest.approx(117964.8 / 32)
    assert row["output_tps_per_decode_gpu"] == pytest.approx(819.2)
    assert row["input_tps_per_prefill_gpu"] == pytest.approx(13107.2)
    assert (row["serving_gpus"], row["decode_gpus"], row["prefill_gpus"]) == (24, 16, 8)


def test_an_aggregated_run_has_no_decode_or_prefill_columns(tmp_path: Path) -> None:
    row = row_of(write_run(tmp_path / "r", run_json(plan=plan(prefill=0, decode=8))))
    assert math.isnan(row["output_tps_per_decode_gpu"])
    assert math.isnan(row["input_tps_per_prefill_gpu"])
    assert row["total_tps_per_gpu"] == pytest.approx(512 * (7373 + 922) / 100 / 8)


@pytest.mark.parametrize("count", [0, None, True, "16", -8])
def test_what_is_no_gpu_count_gives_missing_values(tmp_path: Path, count: object) -> None:
    bare = plan() | {"serving_gpus": count, "allocated_gpus": count, "role_gpus": {}}
    row = row_of(write_run(tmp_path / "r", run_json(plan=bare)))
    assert math.isnan(row["total_tps_per_gpu"])
    assert math.isnan(row["total_tps_per_allocated_gpu"])
    assert row["total_tps"] > 0


def test_generation_speed_is_the_inverse_of_the_median_tpot(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r", tpot_ms=Latency(mean=40.0, median=23.9)))
    assert row["generation_tps_per_user"] == pytest.approx(41.841, abs=1e-3)
    assert math.isnan(row["tpot_p99_ms"])


def test_a_tpot_of_zero_gives_no_infinite_speed(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r", tpot_ms=Latency(median=0.0)))
    assert math.isnan(row["generation_tps_per_user"])


def test_absent_percentiles_are_missing_and_present_ones_stay(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r", ttft_ms=Latency(mean=210.0, p90=400.0)))
    assert row["ttft_p90_ms"] == 400.0
    assert math.isnan(row["ttft_p99_ms"])


def test_ttft_zero_with_tokens_is_not_measured(tmp_path: Path) -> None:
    zero = Latency(mean=0.0, median=0.0, p90=0.0, p99=0.0)
    row = row_of(completed_run(tmp_path / "r", ttft_ms=zero, itl_ms=zero))
    for name in ("ttft_mean_ms", "tpot_median_ms", "itl_p99_ms", "generation_tps_per_user"):
        assert math.isnan(row[name])
    assert row["e2el_median_ms"] == 11600.0
    assert row["total_tps"] == pytest.approx(512 * 8295 / 100)
    assert "not measured" in row["notes"]


@pytest.mark.parametrize(
    "argv",
    [
        ["vllm", "serve", "--stream-interval", "100"],
        ["vllm", "serve", "--stream-interval=100"],
        ["vllm", "serve", "--stream_interval", "100"],
    ],
)
def test_itl_is_missing_when_a_chunk_holds_many_tokens(tmp_path: Path, argv: list[str]) -> None:
    workers = [{"role": "prefill", "argv": []}, {"role": "decode", "argv": argv}]
    row = row_of(write_run(tmp_path / "r", run_json(plan=plan(workers=workers))))
    assert math.isnan(row["itl_mean_ms"])
    assert row["tpot_mean_ms"] == 12.6
    assert "100 tokens a chunk" in row["notes"]
    assert row["verdict"] == "VALID"


def test_itl_stays_when_only_prefill_chunks_or_chunks_are_single_tokens(tmp_path: Path) -> None:
    workers = [
        {"role": "prefill", "argv": ["--stream-interval", "100"]},
        {"role": "decode", "argv": ["--stream-interval", "1"]},
    ]
    row = row_of(write_run(tmp_path / "r", run_json(plan=plan(workers=workers))))
    assert row["itl_mean_ms"] == 12.4
    assert row["notes"] == ""


def test_external_share_uses_the_servers_own_prompt_count_first(tmp_path: Path) -> None:
    told = ServerCounters(decode_external_tokens=900.0, prefill_prompt_tokens=1000.0)
    assert row_of(completed_run(tmp_path / "a", server=told))["external_kv_share"] == 0.9
    untold = ServerCounters(decode_external_tokens=512 * 7373 / 2)
    assert row_of(completed_run(tmp_path / "b", server=untold))["external_kv_share"] == 0.5


@pytest.mark.parametrize(
    ("definition", "ratio", "ends"),
    [
        ("vllm", 0.2, (6553, 9831)),
        ("inferencemax", 0.8, (6553, 8192)),
        ("vllm", 0.0, (8192, 8192)),
        ("inferencemax", 1.0, (8192, 8192)),
        ("vllm", 1.0, None),
    ],
)
def test_one_ratio_means_two_ranges(
    definition: str, ratio: float, ends: tuple[int, int] | None
) -> None:
    assert expected_range(definition, 8192, ratio) == ends


def test_the_accuracy_columns_hold_both_intervals(tmp_path: Path) -> None:
    passes = [repeat(n, correct=1150 + 11 * n) for n in range(3)]
    row = row_of(write_run(tmp_path / "r", repeats=passes))
    low, high = wilson(1161, 1319) or (0, 0)
    assert row["accuracy"] == pytest.approx(1161 / 1319)
    assert row["accuracy_half_width"] == pytest.approx((high - low) / 2)
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((low, high))
    assert row["accuracy_t_high"] - row["accuracy"] == pytest.approx(
        4.3027 * (11 / 1319) / math.sqrt(3)
    )
    assert (row["accuracy_repeats"], row["accuracy_answers"]) == (3, 3957)


def test_wilson_matches_known_values() -> None:
    low, high = wilson(5805, 6595) or (0, 0)
    assert (high - low) / 2 == pytest.approx(0.00784, abs=1e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)
    assert wilson(0, 0) is None


def test_t_interval_needs_two_values_and_uses_few_degrees_of_freedom() -> None:
    assert t_interval([0.88]) is None
    low, high = t_interval([0.87, 0.89]) or (0, 0)
    assert (high - low) / 2 == pytest.approx(12.7062 * 0.01, rel=1e-6)
    assert t_quantile(31) == pytest.approx(2.03951, abs=1e-4)
    assert t_quantile(10**6) == pytest.approx(1.95997, abs=1e-5)


def test_every_metric_is_declared_once_and_explains_itself() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(metric.doc and metric.source and metric.label for metric in METRICS)


def test_a_latency_that_was_not_measured_takes_the_figures_derived_from_it_along(
    tmp_path: Path,
) -> None:
    row = row_of(completed_run(tmp_path / "r", ttft_ms=Latency()))
    assert pd.isna(row["tpot_median_ms"])
    assert pd.isna(row["generation_tps_per_user"])
    assert not pd.isna(row["total_tps_per_gpu"])


def test_output_tokens_per_all_serving_gpus_have_a_column_of_their_own(tmp_path: Path) -> None:
    row = row_of(completed_run(tmp_path / "r"))
    assert row["output_tps_per_gpu"] == pytest.approx(
        row["output_tps_per_decode_gpu"] * row["decode_gpus"] / row["serving_gpus"]
    )
