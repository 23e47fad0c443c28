"""The time series of a run: sampled, written, kept small, and read back."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pandas as pd
import pytest

from analysis.errors import AnalysisError
from analysis.series import load_series, wide_series
from analysis.series_command import main
from jobs.engines.vllm_series import ENGINE_SERIES
from jobs.series_files import SeriesFiles, thin_out
from jobs.series_keep import keep_series
from jobs.series_page import SeriesPage
from jobs.store import RunDir, write_json
from tests.analysis_runs import write_run

COLUMNS = ["t", "rank", "answer_s", "running", "kv_usage", "generation_tokens", "preemptions"]
DATA = Path(__file__).parent / "data" / "engine_logs"
T0 = 1_785_578_400.0
"""2026-08-01T10:00:00Z, when the point of tests/analysis_runs.py begins."""


def write_series(run: Path, process: str, role: str, rows: list[list[float | None]]) -> None:
    files = SeriesFiles(RunDir(run).series)
    files.begin()
    files.head(process, role, COLUMNS)
    for row in rows:
        files.row(process, row)
    files.close()


def values(frame: pd.DataFrame, metric: str, rank: int) -> list[float]:
    chosen = frame[(frame["metric"] == metric) & (frame["rank"] == rank)]
    return [float(value) for value in chosen["value"]]


def test_counters_become_rates_per_rank_and_samples_know_their_point(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_series(
        run,
        "decode0",
        "decode",
        [
            [T0 - 2, 0, None, 1, 0.1, 100, 0],
            [T0 - 2, 1, None, 0, 0.0, 1000, 0],
            [T0 + 2, 0, None, 3, 0.5, 500, 2],
            [T0 + 2, 1, None, 0, 0.0, 1000, 0],
        ],
    )
    frame = load_series(run)
    assert values(frame, "generation_tps", 0) == [100.0]
    assert values(frame, "generation_tps", 1) == [0.0]
    assert values(frame, "preemptions", 0) == [2.0]
    assert values(frame, "running", 0) == [1.0, 3.0]
    first, second = frame[(frame["metric"] == "running") & (frame["rank"] == 0)]["point"]
    assert first is pd.NA
    assert second == 0
    assert sorted(set(frame["t_s"])) == [0.0, 4.0]


def test_a_counter_that_went_back_is_another_process_and_gives_no_rate(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    rows: list[list[float | None]] = [[T0, 0, None, 1, 0, 900, 0], [T0 + 1, 0, None, 1, 0, 5, 0]]
    write_series(run, "decode0", "decode", rows)
    assert load_series(run, ["generation_tps"]).empty


def test_a_second_attempt_begins_its_counters_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_series(run, "decode0", "decode", [[T0, 0, None, 1, 0, 10, 0]])
    write_series(run, "decode0", "decode", [[T0 + 60, 0, None, 1, 0, 9000, 0]])
    assert load_series(run, ["generation_tps"]).empty
    assert len(load_series(run, ["running"])) == 2


def test_a_run_without_series_has_an_empty_frame_of_the_same_columns(tmp_path: Path) -> None:
    frame = load_series(write_run(tmp_path / "run"))
    wanted = ["t_s", "process", "role", "rank", "point", "metric", "value"]
    assert frame.empty
    assert list(frame.columns) == wanted
    assert str(frame.dtypes["value"]) == "float64"


def test_broken_lines_cost_only_themselves(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_series(run, "decode0", "decode", [[T0, 0, None, 1], [T0 + 1, 0, None, 2]])
    with (RunDir(run).series / "decode0.jsonl").open("a") as stream:
        stream.write('[1,"x",null]\n[]\n[null,0]\n{"columns": 3}\nrubbish\n[17859,0,nul')
    (RunDir(run).series / "other.jsonl").write_text("[1,2,3]\n")
    assert load_series(run, ["running"])["value"].tolist() == [1.0, 2.0]


def test_ranks_of_a_headless_process_get_its_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    document = json.loads(RunDir(run).run_json.read_text())
    peers = {"role": "decode", "endpoint": 0}
    document["plan"]["workers"] = [
        {**peers, "name": "decode0-n0", "url": "http://x", "leader": True, "dp_ranks": [0]},
        {**peers, "name": "decode0-n1", "url": None, "leader": False, "dp_ranks": [1]},
    ]
    write_json(RunDir(run).run_json, document)
    write_series(run, "decode0-n0", "decode", [[T0, 0, None, 1], [T0, 1, None, 2]])
    frame = wide_series(run).set_index("rank")
    assert frame["process"].to_dict() == {0: "decode0-n0", 1: "decode0-n1"}


def test_a_file_beyond_its_limit_loses_every_second_look_of_every_rank(tmp_path: Path) -> None:
    files = SeriesFiles(tmp_path, limit_bytes=2000)
    files.begin()
    files.head("decode0", "decode", COLUMNS)
    for look in range(100):
        files.row("decode0", [T0 + look, 0, None, 1.0])
        files.row("decode0", [T0 + look, 1, None, 1.0])
    files.close()
    path = tmp_path / "decode0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [row[0] - T0 for row in rows if row[1] == 0] == list(range(0, 100, 2))
    assert [row[0] - T0 for row in rows if row[1] == 1] == list(range(0, 100, 2))
    assert path.stat().st_mode & 0o777 == 0o600
    thin_out(path)
    assert path.read_text().startswith('{"process": "decode0"')


def test_a_folder_that_cannot_be_written_is_told_and_stops_nothing(tmp_path: Path) -> None:
    files = SeriesFiles(tmp_path / "gone")
    files.begin()
    files.row("decode0", [T0, 0, 1.0])
    files.close()
    assert files.dropped == 1
    assert "gone" in str(files.trouble)


def test_a_page_is_read_per_engine_with_labels_summed() -> None:
    page = "\n".join(
        [
            'vllm:num_requests_running{engine="1",model_name="m"} 4.0',
            'vllm:num_requests_waiting_by_reason{engine="1",model_name="m",reason="deferred"} 2.0',
            'vllm:num_requests_waiting_by_reason{engine="1",model_name="m",reason="capacity"} 9.0',
            'vllm:request_success_total{engine="1",finished_reason="stop",model_name="m"} 3.0',
            'vllm:request_success_total{engine="1",finished_reason="length",model_name="m"} 5.0',
            'vllm:request_success_created{engine="1",finished_reason="stop"} 1.7e9',
            "process_cpu_seconds_total 19.41",
        ]
    )
    found = SeriesPage(ENGINE_SERIES).read(page)
    assert found["1"] == {"running": 4.0, "waiting_deferred": 2.0, "finished": 8.0}
    assert found[""] == {"cpu_s": pytest.approx(19.41)}


def test_a_kept_parquet_is_read_until_a_line_is_newer(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_series(run, "decode0", "decode", [[T0, 0, None, 1], [T0 + 1, 0, None, 2]])
    before = load_series(run)
    assert main([str(run), "--keep"]) == 0
    pd.testing.assert_frame_equal(load_series(run), before)
    lines = RunDir(run).series / "decode0.jsonl"
    lines.write_text(lines.read_text().replace(",2]", ",7]"))
    os.utime(lines, (1, 1))
    assert values(load_series(run), "running", 0) == [1.0, 2.0]
    os.utime(lines)
    assert values(load_series(run, ["running"]), "running", 0) == [1.0, 7.0]
    RunDir(run).series_parquet.write_bytes(b"no parquet")
    assert values(load_series(run), "running", 0) == [1.0, 7.0]


def test_the_driver_keeps_long_series_by_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_series(run, "decode0", "decode", [[T0, 0, None, 1], [T0 + 1, 0, None, 2]])
    store = RunDir(run)
    assert asyncio.run(keep_series(store, os.environ))
    assert not store.series_parquet.exists()
    assert asyncio.run(keep_series(store, os.environ, worth_bytes=1))
    assert len(pd.read_parquet(store.series_parquet)) == 2


def test_the_command_writes_every_look_or_shows_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    write_series(run, "decode0", "decode", [[T0, 0, None, 1], [T0 + 1, 0, None, 2]])
    write_series(run, "decode1", "decode", [[T0, 1, None, 4], [T0 + 1, 1, None, 4]])
    assert main([str(run)]) == 0
    row = capsys.readouterr().out.splitlines()[2].split()
    assert row == ["run", "0", "decode", "5.5"]
    assert main([str(run), "--out", str(tmp_path / "x.csv")]) == 0
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 5
    with pytest.raises(AnalysisError, match=r"none of \.parquet, \.csv"):
        main([str(run), "--out", str(tmp_path / "x.txt")])
    assert main([str(write_run(tmp_path / "other"))]) == 1
    assert "has no series" in capsys.readouterr().err


def test_every_number_that_is_sampled_stands_on_a_real_page() -> None:
    """vLLM 0.32.0, a decode worker over NIXL; the process' own two have no engine label."""
    page = (DATA / "decode_metrics.txt").read_text()
    found = SeriesPage(ENGINE_SERIES).read(page)
    assert set(found["0"]) | set(found[""]) == set(ENGINE_SERIES)
    assert set(found[""]) == {"cpu_s", "memory_bytes"}
    engine = found["0"]
    assert (engine["prompt_tokens"], engine["generation_tokens"]) == (29760.0, 3384.0)
    assert (engine["computed_tokens"], engine["external_tokens"]) == (56.0, 29704.0)
    assert (engine["finished"], engine["transfers"]) == (56.0, 56.0)
    assert engine["queue_s"] == pytest.approx(18.607, abs=1e-3)
