"""Sweeps on a real slurmctld: a job a deployment, throttled, killed, resubmitted, held, edited."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.test_on_slurm import read, state_of, table, wait_for
from tests.test_preflight_on_slurm import HTTP, QUICK, stranger

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parent.parent
SMALL = (
    *("engine=rehearsal", "cluster=slurm_ci", "workload=smoke", "accuracy=word_problems"),
    *("accuracy.num_questions=4", "workload.prompts_per_concurrency=2"),
)


def sweep(
    cluster: Cluster, folder: Path, *words: str, code: Path = ROOT, rc: int = 0
) -> tuple[Path, str]:
    """`python -m launcher -m`: the sweep's directory, and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", "-m", f"cluster.results_dir={folder}/runs", *words],
        cwd=folder,
        env={**cluster.env(), "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == rc, done.stderr + done.stdout
    found = re.search(r"^sweep directory  (.+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return Path(found[1]), done.stdout


def runs_of(home: Path) -> list[dict[str, Any]]:
    """The jobs that sweep.json names."""
    found: list[dict[str, Any]] = read(home / "sweep.json")["runs"]
    return found


def ended(cluster: Cluster, home: Path, seconds: float) -> None:
    """Waits for the table job, which comes after all others."""
    job = read(home / "sweep.json")["table"]["job_id"]
    wait_for(lambda: job not in cluster.run("squeue", "-h", "-o%i").split(), seconds, "the tables")


def show(cluster: Cluster, job: str) -> str:
    """scontrol's word on a job."""
    return cluster.run("scontrol", "show", "job", job)


def test_half_of_a_sweep_is_killed_and_the_same_line_runs_what_is_missing(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    """Four jobs, two lanes; two are cancelled before they begin; the tables come all the same."""
    words = (
        *(*SMALL, "topology=dp1_prefill1x1", "topology.roles.prefill.endpoints=1,2,3,4"),
        *("workload.concurrency=1,2", "sweep.max_jobs=2"),
    )
    home, said = sweep(slurm_cluster, tmp_path, *words)
    jobs = runs_of(home)
    assert "8 combinations, 4 jobs with 8 points" in said
    ids = [job["job_id"] for job in jobs]
    assert [job["dependency"] for job in jobs] == [
        *(None, None, f"afterany:{ids[0]}", f"afterany:{ids[1]}"),
    ]
    assert "Comment=qwen3_5_397b_a17b_nvfp4 on dp1_prefill1x1" in show(slurm_cluster, ids[3])
    slurm_cluster.run("scancel", *ids[2:])
    ended(slurm_cluster, home, 240)
    for job, state in zip(ids, ("COMPLETED", "COMPLETED", "CANCELLED", "CANCELLED"), strict=True):
        wait_for(lambda j=job, s=state: state_of_job(slurm_cluster, j) == s, 120, f"{job} {state}")  # type: ignore[misc]
    first = (home / "table.txt").read_text()
    assert first.count("REHEARSAL  completed") == 4
    assert first.count("unfinished, ") == 2

    again, said = sweep(slurm_cluster, tmp_path, *words)
    assert "8 combinations, 2 jobs with 4 points, 4 points reused" in said
    states = [(job["state"], job["points"]) for job in runs_of(again)]
    assert states == [
        ("reused", []),
        ("reused", []),
        ("submitted", ["c1", "c2"]),
        ("submitted", ["c1", "c2"]),
    ]
    ended(slurm_cluster, again, 240)
    whole = table(again)
    assert whole.stdout.count("REHEARSAL  completed (reused)") == 4
    assert len(re.findall(r"REHEARSAL  completed$", whole.stdout, re.MULTILINE)) == 4
    assert f"reused, measured in {home}/" in whole.stdout
    assert (again / "table.txt").read_text() == whole.stdout

    third, said = sweep(slurm_cluster, tmp_path, *words)
    assert "0 jobs with 0 points, 8 points reused" in said
    assert read(third / "sweep.json")["table"]["job_id"] is None
    assert (third / "table.txt").read_text().count("completed (reused)") == 8


def state_of_job(cluster: Cluster, job: str) -> str:
    """The job's state by accounting, without who cancelled it."""
    return (cluster.run("sacct", "-nXP", "-j", job, "-o", "State").split() or [""])[0]


def test_editing_code_and_configuration_of_a_waiting_job_changes_nothing(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    code = tmp_path / "checkout"
    for package in ("analysis", "conf", "jobs", "launcher"):
        shutil.copytree(
            ROOT / package, code / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    words = (*SMALL, "topology=dp1_prefill1x1", "workload.concurrency=1,2", "sweep.table=false")
    home, _ = sweep(slurm_cluster, tmp_path, *words, "+cluster.sbatch.hold=true", code=code)
    (job,) = runs_of(home)
    for path in (code / "jobs").rglob("*.py"):
        path.write_text("raise SystemExit('an edited file was run')\n")
    (code / "conf" / "workload" / "smoke.yaml").write_text("isl: 1\nosl: 1\nconcurrency: [9]\n")
    slurm_cluster.run("scontrol", "release", job["job_id"])
    run = home / job["directory"]
    wait_for((run / "outcome.json").exists, 120, "the released job ends")
    assert read(run / "outcome.json")["status"] == "completed", read(run / "outcome.json")
    record = read(run / "points" / "0-c1.json")
    assert (record["isl"], record["concurrency"]) == (256, 1)
    assert record["snapshot"] == read(run / "run.json")["snapshot"]["sha256"]
    shown = table("--columns", "snapshot,isl", home)  # type: ignore[arg-type]
    assert shown.stdout.count(record["snapshot"]) == 2


CHANGES = {
    "the plan in run.json": ("run.json", '"isl": 256', '"isl": 255', "plan was edited"),
    "the copied code": ("../code/jobs/bench.py", "POLL_S = 0.1", "POLL_S = 0.2", "the code in"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_snapshot_is_refused(slurm_cluster: Cluster, tmp_path: Path, what: str) -> None:
    name, before, after, cause = CHANGES[what]
    words = (*SMALL, "topology=dp1_prefill1x1", "workload.concurrency=1,2", "sweep.table=false")
    home, _ = sweep(slurm_cluster, tmp_path, *words, "+cluster.sbatch.hold=true")
    (job,) = runs_of(home)
    path = home / job["directory"] / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    slurm_cluster.run("scontrol", "release", job["job_id"])
    outcome = home / job["directory"] / "outcome.json"
    wait_for(outcome.exists, 120, "the refusal")
    told = json.loads(outcome.read_text())
    assert (told["status"], told["phase"]) == ("failed", "snapshot")
    assert cause in told["cause"]


def test_one_refused_job_stops_no_other_and_is_told(slurm_cluster: Cluster, tmp_path: Path) -> None:
    """A cluster of 36 nodes cannot hold 38; the table names the job that was never submitted."""
    words = (*SMALL, "topology=dp1_prefill1x1", "topology.share_nodes=false")
    home, said = sweep(
        slurm_cluster,
        tmp_path,
        *words,
        *("topology.roles.prefill.endpoints=1,148", "cluster.nvlink_domain_nodes=64"),
        *("cluster.segment=off", "workload.concurrency=1"),
        rc=1,
    )
    good, refused = runs_of(home)
    assert (good["state"], refused["state"]) == ("submitted", "refused")
    assert "Requested node configuration is not available" in refused["error"]
    assert "ERROR" in said
    assert "cluster.partition" in said
    ended(slurm_cluster, home, 120)
    shown = table(home)
    assert shown.returncode == 1
    assert "was not submitted: sbatch refused the job" in shown.stderr


def test_a_job_on_a_dependency_that_is_long_gone_begins(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    words = (*SMALL, "topology=dp1_prefill1x1", "workload.concurrency=[1]", "sweep.table=false")
    home, _ = sweep(slurm_cluster, tmp_path, *words, "cluster.dependency=afterany:1")
    (job,) = runs_of(home)
    wait_for((home / job["directory"] / "outcome.json").exists, 120, "the job ends")
    assert state_of(slurm_cluster, home / job["directory"])
    assert os.path.lexists(home / job["directory"] / "batch.sh")


def test_a_run_that_moves_off_a_bad_node_keeps_its_lane_and_the_tables_wait_for_it(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    """One lane, two jobs; a stranger's port on the first node makes each move once."""
    words = (
        *(*QUICK, "cluster.exclude='node[1-32]'", "on_bad_node=exclude", "sweep.max_jobs=1"),
        "+model.env.COMBINATION=1,2",
    )
    with stranger(slurm_cluster, "node33", HTTP):
        home, _ = sweep(slurm_cluster, tmp_path, *words)
        first, second = (home / run["directory"] for run in runs_of(home))
        wait_for((second / "outcome.json").is_file, 240, "the second run's end")
        wait_for((home / "report.html").is_file, 120, "the tables and the report")
    outcomes = [read(run / "outcome.json") for run in (first, second)]
    assert [outcome["status"] for outcome in outcomes] == ["completed", "completed"]
    assert read(first / "submission.json")["resubmission"]["excluded"]
    begun = read(second / "attempts" / "1.json")["started_at"]
    assert begun > outcomes[0]["ended_at"]
    text = (home / "table.txt").read_text()
    assert all(run.name[-6:] in text for run in (first, second))
