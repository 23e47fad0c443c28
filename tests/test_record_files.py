"""A record decoded in one step is the record read field by field, and nothing else is let in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.run import RunJson, parse_run
from jobs.record_files import check_numbers, read_object, read_record, typed
from jobs.records import BenchPoint, Outcome, RecordError, Station, Stations, from_json, to_json
from jobs.run_spec import Plan
from tests.analysis_runs import completed_run, outcome, point
from tests.fakes_jobs import pair_run

STATIONS = Stations(span_s=90.0, decode=Station(ranks=8, looks=800, running=400.5))
OLDER = {"window", "schema", "stations", "raw", "snapshot", "ttft_ms", "request_throughput"}
CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "as written": lambda d: d,
    "a newer writer's field": lambda d: d | {"new": {"deep": [1, 2]}},
    "a whole number where a part is allowed": lambda d: d | {"duration_s": 100},
    "an older writer": lambda d: {k: v for k, v in d.items() if k not in OLDER},
    "stations": lambda d: d | {"stations": to_json(STATIONS)},
    "a negative seed": lambda d: d | {"seed": -7},
    "half a surrogate": lambda d: d | {"name": "\ud800"},
}


@pytest.mark.parametrize("kind", CHANGES)
def test_both_ways_to_read_give_the_same_record(tmp_path: Path, kind: str) -> None:
    data = CHANGES[kind](to_json(point()))
    path = tmp_path / "record.json"
    path.write_text(json.dumps(data))
    assert read_record(BenchPoint, path) == from_json(BenchPoint, data)


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("concurrency: expected int", {"concurrency": 64.0}),
        ("completed: expected int", {"completed": True}),
        ("schema True", {"schema": True}),
        ("schema 2, this program reads 1", {"schema": 2}),
        ("window: queue_mean_ms: impossible value -1.0", {"window": {"queue_mean_ms": -1.0}}),
        (
            "stations: decode: running: impossible value 1e+30",
            {"stations": to_json(STATIONS) | {"decode": {"ranks": 8, "looks": 1, "running": 1e30}}},
        ),
        ("ttft_ms: expected a JSON object", {"ttft_ms": [1.0]}),
    ],
)
def test_what_is_not_whole_is_told_field_by_field(
    tmp_path: Path, words: str, change: dict[str, Any]
) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(to_json(point()) | change))
    with pytest.raises(RecordError, match=str(path)) as told:
        read_record(BenchPoint, path)
    assert words in str(told.value)


def test_bytes_that_are_no_text_are_refused_where_nobody_looks_as_well(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b'{"run_id": "r", "config": "\xe9"}')
    with pytest.raises(RecordError, match="not a JSON record"):
        read_object(path, RunJson)


def test_a_part_of_run_json_tells_the_analysis_what_the_whole_does(tmp_path: Path) -> None:
    path = completed_run(tmp_path / "r") / "run.json"
    part = read_object(path, RunJson)
    assert parse_run(path.parent, part) == parse_run(path.parent, read_object(path))
    assert "name" not in part


def test_a_run_json_of_another_shape_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"run_id": "r", "plan": {"workers": 7}, "name": "n"}')
    assert read_object(path, RunJson)["name"] == "n"


def test_a_record_with_a_part_that_may_be_missing_is_plausible_without_it(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.write_text(json.dumps(to_json(outcome())))
    assert read_record(Outcome, path).teardown is None
    check_numbers(point(stations=STATIONS), "here")


def test_a_plan_converted_in_one_step_is_the_plan_read_field_by_field() -> None:
    data = pair_run()["plan"]
    assert typed(Plan, data, "plan") == from_json(Plan, data, "plan")
    broken = data | {"workers": [data["workers"][0] | {"gpus": ["x"]}]}
    with pytest.raises(RecordError, match=r"plan: workers\[0\].*gpus.*expected int, found 'x'"):
        typed(Plan, broken, "plan")
