"""Whole runs that end badly: dead processes, signals, a killed driver. Real small processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.store import RunDir
from jobs.teardown import TERM_SHARE
from tests.fakes_jobs import (
    PYTHON,
    events,
    left_over,
    make_run,
    outcome,
    pair_run,
    run_document,
    start_driver,
    step,
    wait_for_event,
)
from tests.patience import wait_until

GATE_CLIENT = """
import pathlib, sys, time
gate = pathlib.Path(sys.argv[1]); gate.joinpath("c4.ready").write_text("")
while not gate.joinpath("c4.go").exists(): time.sleep(0.05)
time.sleep(60)
"""
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
if len(sys.argv) > 1:
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
print("deaf", flush=True)
time.sleep(600)
"""
SLOW_ACCURACY = {
    "dataset": "word_problems",
    "comparable": False,
    "repeats": 1,
    "questions_path": None,
    "shots_path": None,
    "num_questions": 4,
    "num_shots": 1,
    "max_tokens": 200,
    "temperature": 0.0,
    "seed": 1,
    "stop": [],
    "concurrency": 2,
    "timeout_s": 60,
    "retries": 0,
    "reference": None,
    "tolerance": 0.03,
}
NO_CANARY = {"enabled": False, "prompts": 1, "tokens": 1, "prompt_tokens": 16, "form": "exact"}
SLOW = ("--decode-tps", "2")
LOADING = ("--start-s", "600")


def held_in(phase: str) -> dict[str, Any]:
    """A run that stays in `phase` for long enough to kill something there."""
    if phase == "start":
        return pair_run(decode_more=LOADING)
    if phase == "router":
        document = pair_run()
        silent = step("router", 0, [PYTHON, "-c", "import time; time.sleep(60)"])
        document["plan"]["router"] |= silent
        return document
    if phase == "canary":
        return pair_run(decode_more=SLOW)
    if phase == "point c4":
        client = [PYTHON, "-c", GATE_CLIENT, "{run_dir}/gates"]
        return pair_run(client=client, canary=NO_CANARY)
    return pair_run(points=(), canary=NO_CANARY, accuracy=SLOW_ACCURACY, decode_more=SLOW)


@pytest.mark.parametrize("phase", ["start", "router", "canary", "point c4", "accuracy"])
def test_a_worker_that_exits_with_0_ends_the_run_in_that_phase(tmp_path: Path, phase: str) -> None:
    run_dir = make_run(tmp_path / "run", held_in(phase))
    driver = start_driver(run_dir)
    worker = wait_for_event(run_dir, event="started", step="prefill0")
    wait_for_event(run_dir, event="start_up", step="prefill0")
    wait_for_event(run_dir, event="phase", phase=phase)
    time.sleep(0.5)
    os.kill(worker["pid"], signal.SIGTERM)
    wait_for_event(run_dir, event="died", step="prefill0", phase=phase)
    assert driver.wait(timeout=120) == 1
    first = next(event for event in events(run_dir) if event["event"] in ("died", "ending"))
    assert (first["event"], first["step"]) == ("died", "prefill0")
    ended = outcome(run_dir)
    assert (ended["status"], ended["phase"]) == ("failed", phase)
    for words in ("prefill0 (prefill) on node", f"rc 0 during {phase}", "logs/"):
        assert words in ended["cause"]
    assert left_over(run_dir) == []


def test_a_client_that_dies_at_its_gate_ends_the_run(tmp_path: Path) -> None:
    client = [PYTHON, "-c", "import sys; sys.exit('no tokenizer here')"]
    run_dir = make_run(tmp_path / "run", pair_run(client=client, decode_more=LOADING))
    assert start_driver(run_dir).wait(timeout=120) == 1
    assert outcome(run_dir)["phase"] == "start", "it did not wait for the loading of decode0"
    assert not [event for event in events(run_dir) if event["event"] == "ready"]
    cause = outcome(run_dir)["cause"]
    assert "client-c4 (client)" in cause
    assert "no tokenizer here" in cause
    assert left_over(run_dir) == []


def test_a_client_that_fails_its_point_ends_the_run_with_its_last_words(tmp_path: Path) -> None:
    script = GATE_CLIENT.replace("time.sleep(60)", "sys.exit('tokens ran out')")
    client = [PYTHON, "-c", script, "{run_dir}/gates"]
    run_dir = make_run(tmp_path / "run", pair_run(client=client, canary=NO_CANARY))
    assert start_driver(run_dir).wait(timeout=120) == 1
    ended = outcome(run_dir)
    assert ended["phase"] == "point c4"
    assert "tokens ran out" in ended["cause"]


def test_a_killed_worker_is_named_with_its_signal(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run", held_in("point c4"))
    driver = start_driver(run_dir)
    worker = wait_for_event(run_dir, event="started", step="decode0")
    wait_for_event(run_dir, event="phase", phase="point c4")
    os.kill(worker["pid"], signal.SIGKILL)
    assert driver.wait(timeout=120) == 1
    assert "decode0 (decode)" in outcome(run_dir)["cause"]
    assert "SIGKILL" in outcome(run_dir)["cause"]


def deaf_run(folder: Path) -> RunDir:
    """Three workers that ignore SIGTERM; the first has a child in a session of its own."""
    document = run_document()
    script = f"{DEAF}# {folder}"
    for number in range(3):
        child = [script] if number == 0 else []
        document["plan"]["workers"].append(
            {
                **step(f"deaf{number}", 0, [PYTHON, "-c", script, *child]),
                "role": "aggregated",
                "endpoint": number,
                "node_rank": 0,
                "leader": True,
                "gpus": [],
                "dp_ranks": [0],
                "dp": 1,
                "url": "http://{node0.address}:1",
                "ports": {},
                "listeners": [],
            }
        )
    document["plan"]["router"] = None
    return make_run(folder, document)


def start_deaf(run_dir: RunDir) -> subprocess.Popen[str]:
    driver = start_driver(run_dir)
    for number in range(3):
        wait_for_event(run_dir, event="start_up", step=f"deaf{number}")
    return driver


def test_sigterm_asks_deaf_processes_once_then_kills_them_and_writes_cancelled(
    tmp_path: Path,
) -> None:
    run_dir = deaf_run(tmp_path / "run")
    driver = start_deaf(run_dir)
    driver.send_signal(signal.SIGTERM)
    wait_for_event(run_dir, event="phase", phase="teardown")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 1
    ended = outcome(run_dir)
    assert (ended["status"], ended["phase"]) == ("cancelled", "start")
    torn = ended["teardown"]
    assert (torn["survivors"], torn["killed"], torn["processes"]) == ([], 4, 4)
    assert torn["looked_at"] == "process table"
    budget_s = run_document()["plan"]["budgets"]["teardown_s"]
    assert torn["seconds"] >= TERM_SHARE * budget_s, "the grace between TERM and KILL"
    logs = [(run_dir.logs / f"deaf{number}.log").read_text() for number in range(3)]
    assert [log.count("asked to end") for log in logs] == [2, 1, 1]
    assert left_over(run_dir) == []


def test_a_killed_driver_leaves_nothing_running(tmp_path: Path) -> None:
    run_dir = deaf_run(tmp_path / "run")
    driver = start_deaf(run_dir)
    driver.kill()
    driver.wait()
    wait_until(lambda: not left_over(run_dir), "the guard stops what is left")
    assert not run_dir.outcome.exists()


def test_ctrl_c_in_the_middle_of_a_point_is_cancelled_and_keeps_points(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run", held_in("point c4"))
    driver = start_driver(run_dir)
    wait_for_event(run_dir, event="phase", phase="point c4")
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=120) == 1
    ended = outcome(run_dir)
    assert (ended["status"], ended["points_written"], ended["points_planned"]) == (
        "cancelled",
        0,
        1,
    )
    assert "SIGINT" in ended["cause"]
    assert [event for event in events(run_dir) if event["event"] == "died"] == []
