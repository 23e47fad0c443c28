"""Points measured several times, points at a rate, goodput: from the configuration to the table."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.difference import NESTED, WITHIN
from analysis.facts import tidy
from analysis.intervals import T_95
from analysis.load import load
from analysis.metrics import compute_all
from analysis.plots import Look, latency
from analysis.point_rows import means
from jobs.records import Latency, to_json
from jobs.result_file import goodput_share
from jobs.store import RunDir, write_json
from jobs.window import window_facts
from launcher.errors import PlanError
from launcher.estimate import estimate
from launcher.validate import check_config
from tests.analysis_runs import outcome, plan, point, run_json, write_run
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
    told = argv[argv.index("--metadata") + 1 :][:4]
    assert told == ["random_input_len=256", "random_output_len=32", "random_range_ratio=0.8",
                    "range_definition=inferencemax"]  # fmt: skip
    plain = document_of(*SMOKE, f"workload.client={client}")["points"][1]["step"]["argv"]
    assert not {"--warmup-rate", "--vllm-bench-json", "--metadata"} & set(plain)


def test_a_rehearsals_files_are_stamped_whoever_reads_them_without_the_run() -> None:
    document = document_of("engine=rehearsal", "workload=smoke")
    argv = document["points"][0]["step"]["argv"]
    assert argv[argv.index("--metadata") + 1 :] == ["rehearsal=true"]


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


@pytest.mark.parametrize(("duration", "kept"), [(103.0, True), (118.0, True), (140.0, False)])
def test_a_rate_that_was_not_kept_makes_a_point_suspect(
    tmp_path: Path, duration: float, kept: bool
) -> None:
    sent = {"concurrency": 64, "index": 0, "sending": {"request_rate": 5.12}}
    described = run_json(plan=plan(points=[sent]))
    record = point(request_rate=5.12, duration_s=duration, ended_at="2026-08-01T10:10:00Z")
    row = compute_all(tidy(load([write_run(tmp_path / "r", described, [record])]))).iloc[0]
    assert row["verdict"] == ("VALID" if kept else "SUSPECT")
    assert ("rate not kept: 512 requests at 5.12/s took 140.0 s" in row["reasons"]) is not kept


def test_the_estimate_of_a_rate_lasts_until_the_last_request_is_due() -> None:
    words = ("topology=dep8_prefill4x2", "workload.concurrency=[64]", "workload.request_rate=0.1")
    made = estimate(plan_of(*words)[0])
    assert made is not None
    assert made.points_s["c64-rate0.1"] == pytest.approx(8 * 64 / 0.1)


def test_an_open_loop_has_no_first_wave_and_its_edges_are_what_is_under_way() -> None:
    starts = [0.1 * n for n in range(200)]
    e2els = [1.0 if n < 100 else 3.0 for n in range(200)]
    facts = window_facts(starts, [0.5] * 200, e2els, 0)
    assert "first_wave_ttft_ms" not in facts
    assert facts["first_half_e2el_ms"] == pytest.approx(1000)
    assert facts["second_half_e2el_ms"] == pytest.approx(3000)


def repeated(folder: Path, durations: tuple[float, ...], **changes: Any) -> Path:
    """A run with one point measured several times, once in each of these seconds."""
    records = [
        point(folder.name, index=n, repeat=n, name=f"c64-repeat{n + 1}" if n else "c64",
              duration_s=duration, ended_at="2026-08-01T10:10:00Z",
              e2el_ms=Latency(mean=117 * duration, median=117 * duration), **changes)
        for n, duration in enumerate(durations)
    ]  # fmt: skip
    return write_run(folder, run_json(folder.name), records, end=outcome(folder.name))


def test_repeats_of_a_run_are_pooled_with_the_t_interval_of_their_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = repeated(tmp_path / "r", (100.0, 110.0, 90.0))
    assert main(["table", str(home), "--pool", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    rates = [512 * (7373 + 922) / seconds / 16 for seconds in (100.0, 110.0, 90.0)]
    assert float(row["total_tps_per_gpu_mean"]) == pytest.approx(statistics.fmean(rates))
    half = T_95[1] * statistics.stdev(rates) / math.sqrt(3)
    assert float(row["total_tps_per_gpu_ci95"]) == pytest.approx(half, rel=1e-4)
    assert (row["rows"], row["verdict"], row["concurrency"]) == ("3", "VALID", "64")


def test_the_pooled_table_has_closed_loops_first_and_says_what_its_intervals_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = repeated(tmp_path / "r", (100.0, 110.0))
    timed = point("r", index=2, name="c32-rate9", concurrency=32, request_rate=9.0)
    write_json(RunDir(home).point(2, 32), to_json(timed))
    main(["table", str(home), "--pool"])
    head, _, _, *rows = capsys.readouterr().out.splitlines()
    place = head.split().index("rate")
    assert [row.split()[place] for row in rows[:2]] == ["-", "9.000"]
    assert "+-95%: half of the 95 % interval (t)" in rows[-1]


def test_a_repeat_that_does_not_count_is_left_out_of_the_pool_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = repeated(tmp_path / "r", (100.0, 101.0))
    bad = point("r", index=2, repeat=2, completed=500, failed=12, total_input_tokens=500 * 7373,
                total_output_tokens=500 * 922)  # fmt: skip
    write_json(RunDir(home).point(2, 64), to_json(bad))
    assert main(["table", str(home), "--pool"]) == 1
    shown = capsys.readouterr().out
    assert "1 INVALID left out" in shown
    head, row = shown.splitlines()[0].split(), shown.splitlines()[3].split()
    assert row[head.index("rows")] == "2"


def test_the_usual_table_tells_repeats_and_rates_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = repeated(tmp_path / "r", (100.0, 101.0), request_rate=5.0)
    main(["table", str(home)])
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head[2:5] == ["conc", "rate", "repeat"]
    plain = write_run(tmp_path / "p", run_json("p"), [point("p")], end=outcome("p"))
    main(["table", str(plain)])
    assert not {"rate", "repeat", "goodput"} & set(capsys.readouterr().out.splitlines()[0].split())


def test_points_of_different_rates_and_closed_loops_are_never_paired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = []
    for name, rate in (("a", 5.0), ("b", 4.0)):
        records = [point(name, request_rate=rate), point(name, index=1, request_rate=2.0)]
        sides.append(str(write_run(tmp_path / name, run_json(name), records)))
    main(["compare", *sides, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == 1
    lone = [text for text in found["notes"] if text.startswith("only in")]
    assert [text.partition(":")[0] for text in lone] == ["only in A", "only in B"]
    assert "5 req/s" in lone[0]
    closed = write_run(tmp_path / "c", run_json("c"), [point("c")])
    assert main(["compare", sides[0], str(closed)]) == 1
    assert "nothing was compared" in capsys.readouterr().err


def test_repeats_within_runs_are_no_further_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, far in (("a", 0.0), ("b", 12.0)):
        for run in range(2):
            shift = far + 3 * run
            repeated(tmp_path / name / f"{name}{run}", (100.0 + shift, 100.1 + shift, 99.9 + shift))
    words = ["--metrics", "total_tps_per_gpu", "--format", "json"]
    main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *words])
    found = json.loads(capsys.readouterr().out)
    one = found["differences"][0]
    assert (one["n_a"], one["n_b"]) == (2, 2)
    assert NESTED in found["notes"]
    main(["compare", str(tmp_path / "a" / "a0"), str(tmp_path / "b" / "b0"), *words])
    found = json.loads(capsys.readouterr().out)
    one = found["differences"][0]
    assert (one["n_a"], one["verdict"]) == (3, "REGRESSION")
    assert WITHIN in found["notes"]


def test_goodput_is_compared_under_the_same_limits_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = []
    for name, limit, share in (("a", 500.0, 0.9), ("b", 500.0, 0.5), ("c", 900.0, 0.99)):
        record = point(name, goodput_share=share, goodput_ttft_ms=limit)
        sides.append(str(write_run(tmp_path / name, run_json(name), [record])))
    main(["compare", sides[0], sides[1], "--tolerance", "5", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    (one,) = [each for each in found["differences"] if each["metric"] == "goodput_share"]
    assert (one["a"], one["b"], one["verdict"]) == (0.9, 0.5, "REGRESSION")
    main(["compare", sides[0], sides[2], "--tolerance", "5"])
    shown = capsys.readouterr().out
    assert "is not compared: TTFT <= 500 ms in A, TTFT <= 900 ms in B" in shown
    assert "goodput_share" not in shown


def test_repeats_are_one_mark_with_bars_and_rates_have_an_axis_of_their_own(tmp_path: Path) -> None:
    home = repeated(tmp_path / "r", (100.0, 110.0, 90.0))
    frame = compute_all(tidy(load([home])))
    column = "total_tps_per_gpu"
    (row,) = means(frame, "topology", (column,)).to_dict("records")
    assert row[column] == pytest.approx(frame[column].mean())
    assert row[f"{column}_half"] > 0
    closed = latency(frame, Look()).axes[0]
    assert "concurrency" in closed.get_xlabel()
    timed = repeated(tmp_path / "t", (100.0, 110.0), request_rate=5.0)
    rated = latency(compute_all(tidy(load([timed]))), Look()).axes[0]
    assert rated.get_xlabel() == "request rate (requests/s)"
    drawn_at = [float(x) for line in rated.lines for x in np.asarray(line.get_xdata(), dtype=float)]
    assert set(drawn_at) == {5.0}
