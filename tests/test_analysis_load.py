"""Broken and foreign files: one warning each, never believed, never the end of the table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import AnalysisError
from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from jobs.records import to_json
from jobs.store import RunDir
from tests.analysis_runs import completed_run, outcome, plan, point, repeat, run_json, write_run
from tests.test_analysis_metrics import frame_of

Damage = Callable[[dict[str, Any]], Any]

DAMAGES: list[tuple[str, Damage]] = [
    ("belongs to run 'other'", lambda p: p | {"run_id": "other"}),
    ("holds point 3-c64", lambda p: p | {"index": 3}),
    ("schema 2", lambda p: p | {"schema": 2}),
    ("'completed' is missing", lambda p: {k: v for k, v in p.items() if k != "completed"}),
    ("duration_s: expected float", lambda p: p | {"duration_s": "100"}),
    ("completed: impossible value -1", lambda p: p | {"completed": -1}),
    ("only 512 were planned", lambda p: p | {"completed": 513}),
    ("requests in 0.0 s", lambda p: p | {"duration_s": 0.0}),
    ("NaN is no number", lambda p: p | {"duration_s": float("nan")}),
    ("Infinity is no number", lambda p: p | {"ttft_ms": {"mean": float("inf")}}),
    ("input_range", lambda p: p | {"input_range": [8192, 6553]}),
    ("input_range", lambda p: p | {"input_range": ["a", "b"]}),
    ("seed: impossible value 1000000", lambda p: p | {"seed": 10**40}),
    ("range_ratio: impossible value 1e+40", lambda p: p | {"range_ratio": 1e40}),
    ("server: kv_bytes: impossible value -1.0", lambda p: p | {"server": {"kv_bytes": -1.0}}),
    ("no request completed", lambda p: p | {"completed": 0, "failed": 512}),
    ("expected a JSON object", lambda p: [p]),
]


@pytest.mark.parametrize(("words", "damage"), DAMAGES)
def test_a_damaged_point_costs_its_row_and_one_warning(
    tmp_path: Path, words: str, damage: Damage
) -> None:
    folder = write_run(tmp_path / "r", points=[point(), point(index=1, concurrency=128)])
    path = RunDir(folder).point(0, 64)
    path.write_text(json.dumps(damage(to_json(point()))))
    loaded = load([folder])
    assert [p.concurrency for p in loaded.runs[0].points] == [128]
    assert len(loaded.warnings) == loaded.lost_records == 1
    assert words in loaded.warnings[0]
    assert str(path) in loaded.warnings[0]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100000, b'{"a": 1e999}', b"1" * 9000]
)
def test_bytes_that_are_no_record_are_only_a_warning(tmp_path: Path, content: bytes) -> None:
    folder = completed_run(tmp_path / "r")
    (RunDir(folder).points / "1-c128.json").write_bytes(content)
    loaded = load([folder])
    assert len(loaded.runs[0].points) == 1
    assert loaded.lost_records == 1


def test_a_pipe_or_a_folder_in_the_place_of_a_record_is_never_opened(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r")
    os.mkfifo(RunDir(folder).points / "1-c128.json")
    (RunDir(folder).points / "2-c256.json").mkdir()
    loaded = load([folder])
    assert len(loaded.runs[0].points) == 1
    assert [w.rsplit(": ", 1)[1] for w in loaded.warnings] == ["not a regular file"] * 2


def test_a_foreign_json_file_is_warned_of_but_loses_nothing(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r")
    (RunDir(folder).points / "notes.json").write_text("{}")
    (RunDir(folder).points / ".0-c64.json.77.tmp").write_text("{")
    loaded = load([folder])
    assert (len(loaded.warnings), loaded.lost_records) == (1, 0)


def test_a_point_the_plan_does_not_know_is_not_believed(tmp_path: Path) -> None:
    planned = plan(points=[{"index": 0, "concurrency": 64}])
    records = [point(), point(index=1, concurrency=128)]
    loaded = load([write_run(tmp_path / "r", run_json(plan=planned), records)])
    assert [p.concurrency for p in loaded.runs[0].points] == [64]
    assert "no such point" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"correct": 1319}, "more right, invalid or cut"),
        ({"answered": 1300}, "are not 1319 questions"),
        ({"accuracy": 0.99}, "accuracy 0.99 is not 1161 right of 1319"),
        ({"dataset": "word_problems"}, "is not the planned one"),
        ({"run_id": "other"}, "belongs to run 'other'"),
    ],
)
def test_a_contradictory_repeat_is_not_believed(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    loaded = load([write_run(tmp_path / "r", repeats=[repeat(0), repeat(1, **changes)])])
    assert [r.repeat for r in loaded.runs[0].repeats] == [0]
    assert words in loaded.warnings[0]


@pytest.mark.parametrize(
    "changes",
    [{"plan": None}, {"engine": {}}, {"schema": 9}, {"plan": plan() | {"serving_gpus": 24}}],
)
def test_a_run_whose_description_is_broken_is_left_out_whole(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    completed_run(tmp_path / "a" / "good", "good")
    write_run(tmp_path / "a" / "bad", run_json("bad", **changes))
    loaded = load([tmp_path / "a"])
    assert [run.run_id for run in loaded.runs] == ["good"]
    assert len(loaded.warnings) == 1
    assert "run.json" in loaded.warnings[0]


def test_a_broken_outcome_does_not_make_a_run_completed(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r")
    RunDir(folder).outcome.write_text("{}")
    frame = frame_of(folder)
    assert list(frame["outcome"]) == ["unfinished"]
    assert len(load([folder]).warnings) == 1


def test_a_run_named_twice_or_copied_counts_once(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "a" / "r")
    (tmp_path / "link").symlink_to(folder)
    completed_run(tmp_path / "copy")
    loaded = load([tmp_path / "a", folder, tmp_path / "link", tmp_path / "copy"])
    assert len(loaded.runs) == 1
    assert len(loaded.warnings) == 1
    assert "left out" in loaded.warnings[0]


def test_points_come_in_the_order_of_the_sweep(tmp_path: Path) -> None:
    records = [point(index=n, concurrency=64 * (n + 1)) for n in range(12)]
    frame = frame_of(write_run(tmp_path / "r", points=records))
    assert list(frame["concurrency"]) == [64 * (n + 1) for n in range(12)]


@pytest.mark.parametrize("name", ["absent", "empty", "file", "n" * 5000])
def test_a_path_without_runs_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(AnalysisError, match=name[:100]):
        load([tmp_path / name])


def test_a_hundred_runs_of_nine_points_load_without_their_raw_results(tmp_path: Path) -> None:
    for number in range(100):
        run_id = f"run-{number}"
        records = [point(run_id, index=n, concurrency=64 * (n + 1)) for n in range(9)]
        write_run(tmp_path / run_id, run_json(run_id), records, end=outcome(run_id))
        (RunDir(tmp_path / run_id).raw / "0-c64.json").write_text("x" * 100000)
    assert len(compute_all(tidy(load([tmp_path])))) == 900
