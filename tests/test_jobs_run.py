"""Whole runs of the rehearsal engine behind the real router, through `python -m jobs run`."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis.series import load_series
from jobs.allocation import local_allocation
from jobs.records import BenchPoint, from_json
from jobs.store import RunDir
from tests.fakes_jobs import (
    PYTHON,
    REPO,
    events,
    left_over,
    make_run,
    outcome,
    pair_run,
    point,
    start_driver,
    step,
    wait_for_event,
)

WORD_PROBLEMS = {
    "dataset": "word_problems",
    "comparable": False,
    "repeats": 2,
    "questions_path": None,
    "shots_path": None,
    "num_questions": 4,
    "num_shots": 2,
    "max_tokens": 16,
    "temperature": 0.0,
    "seed": 1,
    "stop": ["Question"],
    "concurrency": 2,
    "timeout_s": 30,
    "retries": 0,
    "reference": None,
    "tolerance": 0.03,
}


def finish(folder: Path, document: dict[str, Any], code: int = 0) -> RunDir:
    """The run directory after the driver ended with `code`."""
    run_dir = make_run(folder, document)
    found = start_driver(run_dir).wait(timeout=120)
    assert found == code, (run_dir.path / "driver.log").read_text()
    assert left_over(run_dir) == []
    return run_dir


def canary(run_dir: RunDir) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_dir.canary.read_text())
    return found


def again(run_dir: RunDir) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-m", "jobs", "run", str(run_dir.path)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of several ranks with everything there is, to its good end. Only to be read."""
    document = pair_run(prefill_dp=2, decode_dp=4, points=(2, 4), accuracy=WORD_PROBLEMS)
    document["plan"]["sample_s"] = 0.1  # a rate needs two looks, on a busy machine too
    document["plan"]["prompts"] = step("prompts", 0, [PYTHON, "-c", "pass"])
    return finish(tmp_path_factory.mktemp("whole") / "run", document)


@pytest.fixture(scope="module")
def banded(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of one point, its canary in the band form, to its good end."""
    form = {"enabled": True, "prompts": 4, "tokens": 4, "prompt_tokens": 64, "form": "band"}
    document = pair_run(points=(2,), canary=form)
    return finish(tmp_path_factory.mktemp("banded") / "run", document)


def test_a_whole_run_with_several_ranks_leaves_every_record(whole: RunDir) -> None:
    run_dir = whole
    assert outcome(run_dir)["status"] == "completed"
    assert outcome(run_dir)["cause"] == ""
    for index, concurrency in enumerate((2, 4)):
        data = json.loads(run_dir.point(index, concurrency).read_text())
        record = from_json(BenchPoint, data)
        assert (record.completed, record.failed) == (4 * concurrency, 0)
        assert record.rehearsal
        moved = record.server
        assert moved.decode_external_tokens == moved.prefill_prompt_tokens
        assert (moved.kv_bytes or 0) > 0
        assert moved.kv_failed == 0
    assert [run_dir.repeat(i).exists() for i in range(3)] == [True, True, False]
    seen = load_series(run_dir.path, ["running"]).groupby("process")["rank"].nunique()
    assert seen.to_dict() == {"decode0": 4, "prefill0": 2}
    assert load_series(run_dir.path, ["requests_rps"])["process"].unique().tolist() == ["router"]
    own = [node.address for node in local_allocation(2, "r-test").nodes]
    assert [n["address"] for n in json.loads(run_dir.allocation.read_text())["nodes"]] == own


def test_two_runs_on_one_machine_share_no_address() -> None:
    first, second = (local_allocation(4, name).nodes for name in ("run-a", "run-b"))
    assert len({node.address for node in (*first, *second)}) == 8


def test_the_canary_proves_every_pair_and_the_state(whole: RunDir) -> None:
    report = canary(whole)
    assert report["verdict"] == "passed"
    pairs = {(pair["prefill"], pair["decode"]) for pair in report["pairs"]}
    assert len(pairs) == 8
    assert all(pair["external_tokens"] == pair["expected_tokens"] for pair in report["pairs"])
    assert [p["equal"] for p in report["prompts"]] == [16] * 8
    assert all(p["control"]["detects"] for p in report["prompts"])
    assert report["router"]["external_tokens"] == report["router"]["expected_tokens"]


def test_the_band_form_passes_on_a_right_state(banded: RunDir) -> None:
    assert canary(banded)["verdict"] == "passed"
    assert [p["overlap"] for p in canary(banded)["prompts"]] == [20] * 4


@pytest.mark.parametrize("form", ["exact", "band"])
def test_a_wrong_state_fails_the_run_although_counters_grew(tmp_path: Path, form: str) -> None:
    plan = {"enabled": True, "prompts": 3, "tokens": 4, "prompt_tokens": 64, "form": form}
    document = pair_run(points=(2,), canary=plan, decode_more=("--fail", "badstate"))
    run_dir = finish(tmp_path / "run", document, code=1)
    assert canary(run_dir)["verdict"] == "failed"
    assert len(canary(run_dir)["pairs"]) == 1
    assert "state is wrong" in outcome(run_dir)["cause"]
    assert not run_dir.point(0, 2).exists()


def test_a_failing_transfer_fails_the_run_with_the_answer_as_evidence(tmp_path: Path) -> None:
    document = pair_run(points=(2,), decode_more=("--fail", "kvfail"))
    run_dir = finish(tmp_path / "run", document, code=1)
    cause = outcome(run_dir)["cause"]
    assert "prefill0 -> decode0" in cause
    assert "HTTP 500" in cause
    assert outcome(run_dir)["phase"] == "canary"


def test_prompts_that_cannot_be_made_end_the_run_with_their_reason(tmp_path: Path) -> None:
    argv = [PYTHON, "-c", "import sys; sys.exit('tokenizer /t cannot be loaded')"]
    document = pair_run(prompts=step("prompts", 0, argv))
    run_dir = finish(tmp_path / "run", document, 1)
    assert "tokenizer /t cannot be loaded" in outcome(run_dir)["cause"]


def test_the_step_that_made_the_prompts_may_end_before_the_run(whole: RunDir) -> None:
    told = [event["event"] for event in events(whole) if event.get("step") == "prompts"]
    assert "started" in told
    assert "died" not in told
    assert outcome(whole)["status"] == "completed"


def test_an_aggregated_run_skips_the_canary(tmp_path: Path) -> None:
    document = pair_run(points=(2,))
    plan = document["plan"]
    worker = plan["workers"].pop(0)
    plan["workers"] = [worker | {"role": "aggregated", "name": "aggregated0"}]
    words = ["aggregated" if word == "prefill" else word for word in worker["command"]]
    plan["workers"][0]["command"] = words
    router = plan["router"]["command"]
    start = router.index("--vllm-pd-disaggregation")
    router[start : router.index("--policy")] = ["--worker-urls", worker["url"]]
    run_dir = finish(tmp_path / "run", document)
    assert canary(run_dir)["verdict"] == "skipped"
    server = from_json(BenchPoint, json.loads(run_dir.point(0, 2).read_text())).server
    assert server.decode_external_tokens is None
    assert (server.generation_tokens or 0) > 0


def test_the_key_is_private_and_in_no_file_but_its_own(whole: RunDir) -> None:
    run_dir = whole
    key = run_dir.api_key.read_text().strip()
    assert stat.S_IMODE(run_dir.api_key.stat().st_mode) == 0o600
    for path in run_dir.path.rglob("*"):
        if path.is_file() and path != run_dir.api_key:
            assert key.encode() not in path.read_bytes(), path


def test_a_finished_run_is_refused_and_stays_as_it_was(whole: RunDir) -> None:
    run_dir = whole
    before = run_dir.outcome.read_text()
    second = again(run_dir)
    assert second.returncode == 2
    assert "has ended already (completed" in second.stderr
    assert run_dir.outcome.read_text() == before


def test_two_drivers_never_share_a_run_directory(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run", pair_run(decode_more=("--start-s", "600")))
    first = start_driver(run_dir)
    wait_for_event(run_dir, event="phase")
    second = again(run_dir)
    assert second.returncode == 2
    assert f"pid {first.pid}" in second.stderr
    first.terminate()
    assert first.wait(timeout=120) == 1


def test_points_that_are_there_already_are_not_measured_again(banded: RunDir) -> None:
    run_dir = banded
    document = json.loads(run_dir.run_json.read_text())
    plan = document["plan"]
    plan["points"].append(point(1, 3, None, plan["base_url"]))
    run_dir.outcome.unlink()
    measured = run_dir.point(0, 2).read_text()
    run_dir.run_json.write_text(json.dumps(document))
    assert start_driver(run_dir).wait(timeout=120) == 0
    assert run_dir.point(0, 2).read_text() == measured
    assert run_dir.point(1, 3).exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a run directory"),
        ("{", "cannot be read as JSON"),
        ('{"schema": 1}', "field 'run_id' is missing"),
    ],
)
def test_what_is_no_run_directory_ends_with_2(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    done = again(RunDir(tmp_path))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "outcome.json").exists()


def test_all_preflight_problems_of_all_nodes_come_in_one_error(tmp_path: Path) -> None:
    document = pair_run(
        preflight={
            "paths": ["/no/such/model"],
            "executables": ["no-such-program"],
            "min_free_disk_gb": 0.0,
        }
    )
    run_dir = finish(tmp_path / "run", document, code=1)
    cause = outcome(run_dir)["cause"]
    assert outcome(run_dir)["phase"] == "preflight"
    assert "2 of 2 nodes not fit: paths: 2 nodes, programs: 2 nodes" in cause
    assert "/no/such/model not there" in cause
    assert "no-such-program not to be run" in cause
    kept = json.loads(run_dir.preflight_record.read_text())
    assert kept["fit"] is False
    assert [node["checks"]["paths"]["state"] for node in kept["nodes"].values()] == ["failed"] * 2
    assert [e for e in events(run_dir) if e.get("step") == "prefill0"] == []


def test_what_only_the_container_can_tell_is_asked_inside_it(tmp_path: Path) -> None:
    inside = [
        step(f"preflight{node}-container", node, [PYTHON, "-m", "jobs.preflight"])
        for node in (0, 1)
    ]
    run_dir = finish(tmp_path / "run", pair_run(preflight={"inside": inside}), code=1)
    assert "2 of 2 nodes not fit: engine: 2 nodes" in outcome(run_dir)["cause"]
    assert "vllm not installed" in outcome(run_dir)["cause"]
    kept = json.loads(run_dir.preflight_record.read_text())
    for node in kept["nodes"].values():
        assert node["engine"]["python"].startswith("3.")
        assert node["checks"]["engine in the container"]["value"] == "no vllm"


def test_a_start_that_makes_no_progress_names_who_is_missing(tmp_path: Path) -> None:
    document = pair_run(points=(), decode_more=("--start-s", "600"))
    document["plan"]["budgets"]["start_s"] = 15
    run_dir = finish(tmp_path / "run", document, code=1)
    cause = outcome(run_dir)["cause"]
    assert "1 of 2 workers are not ready" in cause
    second = local_allocation(2, "r-test").nodes[1].address
    assert f"decode0: side channel {second}" in cause
    assert "last said:" in cause
