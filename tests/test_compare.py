"""Two sides compared: settings first, then statements only where the data allow them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.compare_command import as_text
from analysis.comparing import Comparison
from analysis.difference import Difference, differences, judged
from analysis.intervals import T_95
from analysis.student import holm, incomplete_beta, quantile, two_sided, welch
from analysis.tables import find
from jobs.records import Latency
from tests.analysis_runs import GSM8K, outcome, plan, point, repeat, run_json, write_run

Capture = pytest.CaptureFixture[str]
STEADY = (100.0, 101.0, 99.5, 100.4)
SLOW = tuple(duration * 1.12 for duration in STEADY)


def side(home: Path, durations: tuple[float, ...], **changes: Any) -> Path:
    """A folder of runs of two points each, one run per duration."""
    for number, duration in enumerate(durations):
        name = f"{home.name}-{number}"
        points = [
            point(name, index=n, concurrency=c, duration_s=duration + n,
                  ended_at="2026-08-01T10:10:00Z",
                  e2el_ms=Latency(mean=117.0 * duration, median=117.0 * duration))
            for n, c in enumerate((64, 128))
        ]  # fmt: skip
        write_run(home / name, run_json(name, **changes), points, end=outcome(name))
    return home


def told(capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and the JSON form."""
    status = main(["compare", *words, "--format", "json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, found


def verdicts(found: dict[str, Any], metric: str) -> list[str]:
    return [one["verdict"] for one in found["differences"] if one["metric"] == metric]


def test_a_slowdown_beyond_noise_is_a_regression_and_fails_a_pipeline(
    tmp_path: Path, capsys: Capture
) -> None:
    a, b = side(tmp_path / "a", STEADY), side(tmp_path / "b", SLOW)
    status, found = told(capsys, str(a), str(b), "--fail-on", "regression")
    assert status == 1
    assert verdicts(found, "total_tps_per_gpu") == ["REGRESSION"] * 2
    one = found["differences"][0]
    assert (one["n_a"], one["n_b"]) == (4, 4)
    assert one["change"] == pytest.approx(1 / 1.12 - 1, abs=1e-3)
    assert one["low"] < one["change"] < one["high"] < 0
    assert told(capsys, str(a), str(b))[0] == 0
    status, back = told(capsys, str(b), str(a), "--fail-on", "regression")
    assert (status, verdicts(back, "e2el_median_ms")) == (0, ["improvement"] * 2)


def test_speeds_are_compared_as_ratios_and_shares_as_differences() -> None:
    """Figures of a real pair on a crowded machine, 4 streams, four repeats a side: decode with
    max-num-seqs 16 and 1. As differences their spread hides a loss of two thirds among 28 looks."""
    columns = {
        "total_tps_per_gpu": ([24.78, 26.49, 14.67, 20.08], [7.99, 6.12, 8.74, 5.64]),
        "goodput_share": ([0.5, 0.25, 0.25, 0.0], [0.0, 0.25, 0.0, 0.0]),
    }
    a, b = (
        pd.DataFrame({name: sides[n] for name, sides in columns.items()} | {"run": "abcd"[n]})
        for n in range(2)
    )
    speed, share = differences("c4", a, b, [find(name) for name in columns])
    logs = [[math.log(value) for value in side] for side in columns["total_tps_per_gpu"]]
    means = [math.exp(sum(side) / 4) for side in logs]
    assert [speed.a, speed.b] == pytest.approx(means)
    assert speed.change == pytest.approx(means[1] / means[0] - 1)
    assert speed.ratio
    assert speed.low == pytest.approx(-0.780, abs=1e-3)
    assert speed.high == pytest.approx(-0.492, abs=1e-3)
    assert speed.p == pytest.approx(0.0008, abs=1e-4)
    plain = welch(*columns["total_tps_per_gpu"])
    assert plain is not None
    assert plain.p == pytest.approx(0.0094, abs=1e-4)
    assert (share.ratio, share.a, share.b) == (False, 0.25, 0.0625)
    first, second = judged([speed, share], None)
    assert (first.verdict, second.verdict) == ("REGRESSION", "no change shown")


def test_intervals_are_per_cent_of_speeds_and_plain_of_shares() -> None:
    one = Difference(
        point="c4", metric="ttft_p99_ms", unit="ms", n_a=2, n_b=2, a=10.0, b=50.0, change=4.0,
        ratio=True, low=-0.5, high=1e30,
    )  # fmt: skip
    other = replace(one, metric="goodput_share", unit="0..1", ratio=False, low=-0.25, high=0.5)
    shown = as_text(Comparison(differences=[one, other], pairs=1))
    assert "+400.0%  -50.0% .. >+1000%" in shown
    assert "-0.25 .. +0.5 (B - A)" in shown
    assert "geometric means" in shown


def test_noise_is_no_change(tmp_path: Path, capsys: Capture) -> None:
    a = side(tmp_path / "a", STEADY)
    b = side(tmp_path / "b", (100.3, 99.8, 101.1, 100.2))
    status, found = told(capsys, str(a), str(b), "--fail-on", "regression")
    assert status == 0
    assert verdicts(found, "total_tps_per_gpu") == ["no change shown"] * 2


def test_without_repeats_nothing_is_said_unless_a_tolerance_is_stated(
    tmp_path: Path, capsys: Capture
) -> None:
    a, b = side(tmp_path / "a", STEADY[:1]), side(tmp_path / "b", SLOW[:1])
    words = (str(a), str(b), "--fail-on", "regression")
    status, found = told(capsys, *words)
    assert (status, verdicts(found, "total_tps_per_gpu")) == (0, ["no statement"] * 2)
    assert "no repeats (1 against 1)" in found["differences"][0]["why"]
    status, found = told(capsys, *words, "--tolerance", "5")
    assert (status, verdicts(found, "total_tps_per_gpu")) == (1, ["REGRESSION"] * 2)
    status, found = told(capsys, *words, "--tolerance", "20")
    assert (status, verdicts(found, "total_tps_per_gpu")) == (0, ["no change shown"] * 2)


def test_what_differs_in_the_settings_comes_first(tmp_path: Path, capsys: Capture) -> None:
    a = side(tmp_path / "a", STEADY[:1], config={"flags": {"all": {"block-size": 64}}, "x": 1})
    newer = {"name": "vllm", "release": "0.34.0", "rehearsal": False}
    config = {"flags": {"all": {"block-size": 128}}, "x": 1}
    b = side(tmp_path / "b", STEADY[:1], engine=newer, config=config)
    assert main(["compare", str(a), str(b)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "settings that differ:",
        "  engine: vllm 0.33.0  ->  vllm 0.34.0",
        "  config flags.all.block-size: 64  ->  128",
    ]


def test_a_point_that_became_invalid_is_a_regression(tmp_path: Path, capsys: Capture) -> None:
    a, b = side(tmp_path / "a", STEADY[:1]), tmp_path / "b"
    fast = point("b", failed=512, completed=0, total_input_tokens=0, total_output_tokens=0)
    write_run(b, run_json("b"), [fast], end=outcome("b"))
    status, found = told(capsys, str(a), str(b), "--fail-on", "regression")
    assert status == 1
    assert verdicts(found, "verdict") == ["REGRESSION"]
    assert "512 of 512 requests failed" in found["differences"][0]["why"]
    assert found["notes"] == [
        "left out of B: 1 INVALID",
        "only in A: dep8_prefill4x2 c128 8192/1024",
    ]


def test_points_of_other_lengths_are_not_paired(tmp_path: Path, capsys: Capture) -> None:
    fixed = point("b", isl=1024, input_range=[819, 1024], total_input_tokens=512 * 921)
    a = side(tmp_path / "a", STEADY[:1])
    b = write_run(tmp_path / "b", run_json("b"), [fixed])
    assert main(["compare", str(a), str(b)]) == 1
    assert "no point is on both sides" in capsys.readouterr().err


def test_accuracy_is_compared_by_its_own_interval(tmp_path: Path, capsys: Capture) -> None:
    loose = plan(accuracy=GSM8K | {"tolerance": 0.2})
    for name, right in (("a", 1161), ("b", 1080), ("c", 1150)):
        answers = [repeat(n, name, correct=right) for n in range(5)]
        write_run(tmp_path / name, run_json(name, plan=loose), [point(name)], answers)
    status, found = told(capsys, f"{tmp_path}/a", f"{tmp_path}/b", "--fail-on", "regression")
    assert (status, verdicts(found, "accuracy")) == (1, ["REGRESSION"])
    one = next(each for each in found["differences"] if each["metric"] == "accuracy")
    # Newcombe (1998), method 10, of 1161/1319 and 1080/1319.
    assert one["low"] == pytest.approx(-0.0885, abs=2e-4)
    assert one["high"] == pytest.approx(-0.0342, abs=2e-4)
    status, found = told(capsys, f"{tmp_path}/a", f"{tmp_path}/c", "--fail-on", "regression")
    assert (status, verdicts(found, "accuracy")) == (0, ["no change shown"])


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_saved_table_is_a_side(tmp_path: Path, capsys: Capture, name: str) -> None:
    a, b = side(tmp_path / "a", STEADY), side(tmp_path / "b", SLOW)
    main(["table", str(a), "--out", str(tmp_path / name)])
    _, direct = told(capsys, str(a), str(b))
    _, by_file = told(capsys, str(tmp_path / name), str(b))
    assert by_file["differences"] == direct["differences"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tolerance", "-1"], "allowed is 0 up to 100"),
        (["--metrics", "total_tsp"], "nearest: total_tps"),
        (["--metrics", "isl"], "neither side is better"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    a = str(side(tmp_path / "a", STEADY[:1]))
    assert main(["compare", a, a, *words]) == 2
    shown = capsys.readouterr()
    assert (message in shown.err, shown.err.count("\n")) == (True, 1)


def test_a_file_that_is_no_saved_table_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    for name in ("x.csv", "y.parquet", "z.csv"):
        assert main(["compare", str(tmp_path / name), str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err


def test_students_t_agrees_with_the_printed_table_and_known_values() -> None:
    for freedom, printed in enumerate(T_95, start=1):
        assert quantile(0.975, freedom) == pytest.approx(printed, abs=6e-5)
    assert two_sided(2.0, 5) == pytest.approx(0.101939, abs=1e-6)
    assert two_sided(0.0, 3) == pytest.approx(1.0)
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(0.5248)
    assert math.isclose(two_sided(12.7062, 1), 0.05, abs_tol=1e-6)


def test_welch_and_holm_by_hand() -> None:
    # Means 20 and 25, variances 4 and 16, three each: error sqrt(20/3), freedom 400/136 = 50/17.
    shown = welch([18.0, 20.0, 22.0], [21.0, 25.0, 29.0])
    assert shown is not None
    assert shown.difference == 5.0
    half = quantile(0.975, 50 / 17) * math.sqrt(20 / 3)
    assert shown.low == pytest.approx(5 - half)
    assert shown.high == pytest.approx(5 + half)
    assert shown.p == pytest.approx(two_sided(5 / math.sqrt(20 / 3), 50 / 17))
    assert welch([1.0], [2.0, 3.0]) is None
    assert welch([1.0, 1.0], [2.0, 2.0]) is None
    assert holm([0.01, 0.04, 0.03]) == [
        pytest.approx(0.03),
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]


def test_a_point_that_a_failed_run_did_not_come_to_is_a_regression(
    tmp_path: Path, capsys: Capture
) -> None:
    both = [point("a"), point("a", index=1, concurrency=128)]
    write_run(tmp_path / "a", run_json("a"), both, end=outcome("a"))
    for status, verdict in (("failed", "REGRESSION"), ("completed", None)):
        b = write_run(tmp_path / status, run_json("b"), [point("b")], end=outcome("b", status))
        code, found = told(capsys, str(tmp_path / "a"), str(b), "--fail-on", "regression")
        assert verdicts(found, "point") == ([verdict] if verdict else [])
        assert code == int(verdict is not None)
    assert any(note.startswith("only in A") for note in found["notes"])


def test_an_exit_status_that_can_say_nothing_says_so(tmp_path: Path, capsys: Capture) -> None:
    a, b = side(tmp_path / "a", STEADY[:1]), side(tmp_path / "b", SLOW[:1])
    assert main(["compare", str(a), str(b), "--fail-on", "regression"]) == 0
    assert "of it this exit status says nothing" in capsys.readouterr().err
    assert main(["compare", str(a), str(b), "--fail-on", "regression", "--tolerance", "50"]) == 0
    assert "says nothing" not in capsys.readouterr().err


def test_different_models_are_told_and_what_follows_from_the_points_is_no_setting(
    tmp_path: Path, capsys: Capture
) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        config = {"workload": {"seed": 0}, "cluster": {"results_dir": f"/home/{name}"}}
        described = run_json(name, plan=plan(served_model=f"m-{name}"), config=config)
        write_run(tmp_path / name, described, [point(name, seed=seed)])
    _, found = told(capsys, str(tmp_path / "a"), str(tmp_path / "b"))
    assert any(note.startswith("DIFFERENT MODELS, m-a in A and m-b") for note in found["notes"])
    assert [name for name, _, _ in found["settings"]] == ["served_model"]


def test_what_only_the_single_test_shows_is_not_clear_and_no_regression(
    tmp_path: Path, capsys: Capture
) -> None:
    a = side(tmp_path / "a", (100.0, 102.0, 98.0))
    b = side(tmp_path / "b", (105.0, 108.0, 103.0))
    metrics = ["--metrics", "total_tps_per_gpu"]
    _, alone = told(capsys, str(a), str(b), *metrics)
    one = next(each for each in alone["differences"] if each["metric"] == "total_tps_per_gpu")
    assert 0.025 < one["p"] < 0.05
    assert one["verdict"] == "not clear"
    assert "alone" in one["why"]
    assert told(capsys, str(a), str(b), *metrics, "--fail-on", "regression")[0] == 0
