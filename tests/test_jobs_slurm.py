"""The Slurm executor against stand-ins of scontrol, srun, squeue and scancel that run locally."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.store import RunDir
from tests.fakes_jobs import (
    PYTHON,
    REPO,
    left_over,
    make_run,
    outcome,
    pair_run,
    wait_for_event,
)

SCONTROL = """#!/bin/sh
echo "scontrol: a remark on standard error 10.9.9.9" >&2
case "$2" in
  hostnames) echo gb200-01; echo gb200-02 ;;
  node) echo "NodeName=$3 Arch=arm64"; echo "   NodeAddr=127.0.0.${3#gb200-0} NodeHostName=$3" ;;
  job) echo "JobId=$3 EndTime=Unknown" ;;
esac
"""
SRUN = """#!/bin/sh
echo "srun: Step created for StepId=77.1" >&2
env | grep '^SLURM_' >> "$FAKE_SLURM/srun.env"
echo "$*" >> "$FAKE_SLURM/srun.args"
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""
SQUEUE = """#!/bin/sh
echo 77.batch; echo 77.0; echo 77.1
"""
SCANCEL = """#!/bin/sh
echo "$*" >> "$FAKE_SLURM/scancel.args"
test ! -e "$FAKE_SLURM/controller_is_down"
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder with the stand-ins, and what they were asked."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    programs = {"scontrol": SCONTROL, "srun": SRUN, "squeue": SQUEUE, "scancel": SCANCEL}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def slurm_run(folder: Path, **kwargs: Any) -> RunDir:
    document = pair_run(**kwargs)
    plan = document["plan"]
    plan["executor"] = "slurm"
    steps = [*plan["workers"], plan["router"], *(point["step"] for point in plan["points"])]
    for step in steps:
        where = f"--nodelist={{node{step['node']}.name}}"
        step["command"] = ["srun", "--overlap", where, *step["command"]]
    return make_run(folder, document)


def start(run_dir: RunDir, slurm: Path, **more: str) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "PATH": f"{slurm}:{os.environ['PATH']}",
        "FAKE_SLURM": str(slurm),
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NODELIST": "gb200-[01-02]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_CPUS_PER_NODE": "144(x2)",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_CPUS_PER_TASK": "4",
        "SLURM_TRES_PER_TASK": "cpu=4",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0xF",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURM_MEM_PER_NODE": "1000",
        "SLURM_GPUS_ON_NODE": "4",
        **more,
    }
    with (run_dir.path / "driver.log").open("w") as stream:
        return subprocess.Popen(
            [PYTHON, "-m", "jobs", "run", str(run_dir.path)],
            cwd=REPO,
            stdout=stream,
            stderr=stream,
            text=True,
            env=env,
        )


def test_a_run_on_slurm_resolves_nodes_once_and_cleans_the_environment(
    tmp_path: Path, slurm: Path
) -> None:
    run_dir = slurm_run(tmp_path / "run", points=(2,))
    code = start(run_dir, slurm).wait(timeout=120)
    assert code == 0, (run_dir.path / "driver.log").read_text()
    allocation = json.loads(run_dir.allocation.read_text())
    assert allocation["job_id"] == "77"
    assert allocation["nodes"] == [
        {"index": 0, "name": "gb200-01", "address": "127.0.0.1"},
        {"index": 1, "name": "gb200-02", "address": "127.0.0.2"},
    ]
    seen = {line.split("=")[0] for line in (slurm / "srun.env").read_text().splitlines()}
    assert {"SLURM_JOB_ID", "SLURM_CONF", "SLURM_JOB_NODELIST"} <= seen
    assert not {name for name in seen if "CPU" in name or "MEM" in name or "GPU" in name}
    assert "SLURM_EXPORT_ENV" not in seen
    asked = (slurm / "srun.args").read_text().splitlines()
    checks = [line for line in asked if "jobs.preflight" in line]
    assert len(checks) == 2
    assert all("--cpus-per-task=144" in line and "--export=ALL" in line for line in checks)
    assert left_over(run_dir) == []


NODE_TROUBLES = {
    "silent": ("sleep 600", "no answer within 15 s; last said: it was checking model files"),
    "garbage": ("echo 'PREFLIGHT-REPORT {torn'; exit 0", "garbage instead of a report"),
    "no such program": ("echo 'No module named jobs'; exit 1", "No module named jobs"),
    "srun's own words": (
        "echo 'srun: error: Task launch for StepId=77.1 failed on node gb200-02'; exit 1",
        "Task launch for StepId=77.1 failed",
    ),
}


@pytest.mark.parametrize(("does", "words"), NODE_TROUBLES.values(), ids=NODE_TROUBLES)
def test_a_node_without_an_answer_is_named_and_the_others_are_still_told(
    tmp_path: Path, slurm: Path, does: str, words: str
) -> None:
    spoilt = f'case "$*" in *nodelist=gb200-02*) echo checking model files; {does};; esac\n'
    (slurm / "srun").write_text(SRUN.replace("while", f"{spoilt}while", 1))
    run_dir = slurm_run(tmp_path / "run", points=())
    document = json.loads(run_dir.run_json.read_text())
    document["plan"]["budgets"]["preflight_s"] = 15
    run_dir.run_json.write_text(json.dumps(document))
    assert start(run_dir, slurm).wait(timeout=120) == 1
    assert outcome(run_dir)["phase"] == "preflight"
    assert words in outcome(run_dir)["cause"]
    kept = json.loads(run_dir.preflight_record.read_text())["nodes"]
    assert kept["gb200-02"]["checks"]["answer"]["state"] == "failed"
    assert kept["gb200-01"]["checks"]["ports"]["state"] == "ok"
    assert left_over(run_dir) == []


def test_sigterm_near_the_jobs_end_is_a_time_out(tmp_path: Path, slurm: Path) -> None:
    run_dir = slurm_run(tmp_path / "run", decode_more=("--start-s", "30"))
    end = int(time.time()) + 60
    driver = start(run_dir, slurm, SLURM_JOB_END_TIME=str(end))
    wait_for_event(run_dir, event="started", step="client-c4")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 1
    assert outcome(run_dir)["status"] == "timed_out"
    assert "time limit" in outcome(run_dir)["cause"]
    assert left_over(run_dir) == []


def deaf_run(folder: Path) -> RunDir:
    document = pair_run(points=())
    plan = document["plan"]
    plan["executor"] = "slurm"
    for worker in plan["workers"]:
        deaf = "import signal,time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(99)"
        worker["command"] = ["srun", "--overlap", PYTHON, "-c", deaf]
    return make_run(folder, document)


def test_a_driver_that_srun_started_leaves_its_own_step_alone(tmp_path: Path, slurm: Path) -> None:
    run_dir = deaf_run(tmp_path / "run")
    driver = start(run_dir, slurm, SLURM_STEP_ID="0")
    wait_for_event(run_dir, event="start_up", step="decode0")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 1
    asked = (slurm / "scancel.args").read_text().splitlines()
    assert set(asked) == {"--signal=TERM 77.1", "--signal=KILL 77.1"}
    assert outcome(run_dir)["teardown"]["survivors"] == ["step 77.1"]
    assert left_over(run_dir) == []


def test_deaf_steps_are_killed_by_their_step_ids_and_never_the_whole_job(
    tmp_path: Path, slurm: Path
) -> None:
    run_dir = deaf_run(tmp_path / "run")
    driver = start(run_dir, slurm)
    wait_for_event(run_dir, event="start_up", step="decode0")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 1
    asked = (slurm / "scancel.args").read_text().splitlines()
    assert asked[:2] == ["--signal=TERM 77", "--signal=KILL 77.0 77.1"]
    assert "--signal=KILL 77" not in asked
    # The stand-in squeue lists its steps for ever: what Slurm still lists is told as left.
    assert outcome(run_dir)["teardown"]["survivors"] == ["step 77.0", "step 77.1"]
    assert outcome(run_dir)["teardown"]["killed"] >= 2
    assert left_over(run_dir) == []


def test_a_silent_controller_does_not_keep_the_steps_alive(tmp_path: Path, slurm: Path) -> None:
    run_dir = slurm_run(tmp_path / "run", points=(), decode_more=("--start-s", "30"))
    driver = start(run_dir, slurm)
    wait_for_event(run_dir, event="start_up", step="decode0")
    (slurm / "controller_is_down").touch()
    (slurm / "squeue").write_text("#!/bin/sh\nsleep 600\n")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 1
    torn = outcome(run_dir)["teardown"]
    assert (torn["survivors"], torn["killed"]) == ([], 0)
    assert "squeue did not answer" in torn["looked_at"]
    assert left_over(run_dir) == []


def test_a_node_count_that_differs_from_the_plan_stops_before_anything_starts(
    tmp_path: Path, slurm: Path
) -> None:
    run_dir = slurm_run(tmp_path / "run", points=())
    assert start(run_dir, slurm, SLURM_JOB_NUM_NODES="3").wait(timeout=120) == 1
    assert "SLURM_JOB_NUM_NODES is 3" in outcome(run_dir)["cause"]
    assert outcome(run_dir)["phase"] == "allocation"
    assert not (slurm / "srun.args").exists()
