"""Points measured several times, points at a rate, goodput: from the configuration to the table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from jobs.result_file import goodput_share
from jobs.window import window_facts
from launcher.errors import PlanError
from launcher.validate import check_config
from tests.analysis_runs import point, run_json, write_run
from tests.compose import config_of, document_of, plan_of
from tests.sweep_lines import groups_of

SMOKE = ("topology=dep2_prefill1x2", "workload=smoke", "workload.concurrency=[2,4]")


def test_every_point_is_measured_again_after_all_the_others_with_other_prompts() -> None:
    points = plan_of(*SMOKE, "workload.repeats=3", "workload.seed=10")[0].points
    names = ["c2", "c4", "c2-repeat2", "c4-repeat2", "c2-repeat3", "c4-repeat3"]
    assert [point.name for point in points] == names
    assert [point.repeat for point in points] == [0, 0, 1, 1, 2, 2]
    assert [point.seed for point in points] == [10, 11, 12, 13, 14, 15]


def test_repeats_are_no_equal_points_and_a_sweep_measures_a_repeat_once() -> None:
    (group,) = groups_of(*SMOKE, "workload.repeats=1,3")
    assert len(group.plan.points) == 6
    assert group.points_of == {0: (0, 1), 1: (0, 1, 2, 3, 4, 5)}
    assert len({point.seed for point in group.plan.points}) == 6


def test_rates_of_a_sweep_are_points_of_one_job_named_by_their_rate() -> None:
    (group,) = groups_of(*SMOKE[:2], "workload.concurrency=64", "workload.request_rate=2,4.5")
    assert [point.name for point in group.plan.points] == ["c64-rate2", "c64-rate4.5"]
    assert [point.sending.request_rate for point in group.plan.points] == [2, 4.5]


@pytest.mark.parametrize("client", ["native", "vllm_bench"])
def test_both_clients_are_told_the_warm_ups_rate_and_to_write_the_fields_file(client: str) -> None:
    words = (
        "workload.warmup_rate=250",
        "workload.vllm_bench_json=true",
        "workload.goodput.ttft_ms=90",
    )
    document = document_of(*SMOKE, f"workload.client={client}", *words)
    argv = document["points"][1]["step"]["argv"]
    assert argv[argv.index("--warmup-rate") + 1] == "250.0"
    assert argv[argv.index("--vllm-bench-json") + 1] == "/RUN/vllm-bench/1-c4.json"
    assert client == "native" or argv.index("--warmup-rate") < argv.index("--")
    plain = document_of(*SMOKE, f"workload.client={client}")["points"][1]["step"]["argv"]
    assert not {"--warmup-rate", "--vllm-bench-json"} & set(plain)


@pytest.mark.parametrize("words", ["workload.repeats=0", "workload.warmup_rate=0"])
def test_what_can_mean_nothing_is_refused(words: str) -> None:
    with pytest.raises(PlanError, match=words.partition("=")[0]):
        check_config(config_of(*SMOKE, words))


@pytest.mark.parametrize(
    ("told", "share"),
    [
        ({"goodput_share": 0.25, "request_goodput": 9.0}, 0.25),
        ({"request_goodput": 2.0}, 0.5),
        ({"request_goodput:": 2.0}, 0.5),
        ({"request_goodput": 0.0}, 0.0),
        ({"request_goodput": 4.001}, 1.0),
        ({"request_goodput": None, "goodput_share": None}, None),
        ({"request_goodput:": None}, None),
        ({}, None),
        ({"request_goodput": math.nan}, None),
    ],
)
def test_goodput_is_the_share_of_all_requests_whichever_client_told_it(
    told: dict[str, Any], share: float | None
) -> None:
    assert goodput_share({"duration": 10.0, **told}, 40) == share


def test_the_table_has_rate_repeat_goodput_and_the_clients_own_load(tmp_path: Path) -> None:
    records = [
        point(goodput_share=0.75, goodput_ttft_ms=500.0, goodput_tpot_ms=15.0),
        point(index=1, request_rate=5.0, burstiness=1.0, repeat=1),
    ]
    records[1].load.client_cpu_s, records[1].load.client_backlog_max = 3.5, 2
    records[0].load.client_backlog_max = 0
    rows = compute_all(tidy(load([write_run(tmp_path / "r", run_json(), records)])))
    first, second = (rows.iloc[place] for place in (0, 1))
    assert first["goodput_share"] == 0.75
    assert first["request_goodput"] == pytest.approx(0.75 * 512 / 100)
    assert first["request_throughput"] == pytest.approx(5.12)
    assert first["goodput_limits"] == "TTFT <= 500 ms, TPOT <= 15 ms"
    assert (second["request_rate"], second["repeat"], first["repeat"]) == (5.0, 2, 1)
    assert (second["client_cpu_s"], second["client_backlog_max"]) == (3.5, 2)
    assert rows["request_rate"].isna().tolist() == [True, False]
    assert rows["client_backlog_max"].isna().tolist() == [True, False]
    assert rows["goodput_share"].isna().tolist() == [False, True]


def test_an_open_loop_has_no_first_wave_and_its_edges_are_what_is_under_way() -> None:
    starts = [0.1 * n for n in range(200)]
    e2els = [1.0 if n < 100 else 3.0 for n in range(200)]
    facts = window_facts(starts, [0.5] * 200, e2els, 0)
    assert "first_wave_ttft_ms" not in facts
    assert facts["first_half_e2el_ms"] == pytest.approx(1000)
    assert facts["second_half_e2el_ms"] == pytest.approx(3000)
