"""`list`, `show`, `watch`, `logs` and `cancel` beside a real slurmctld."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.test_on_slurm import REHEARSAL, ROOT, launch, read, wait_for

pytestmark = pytest.mark.slurm

SMALL = (*REHEARSAL, "topology=dp1_prefill1x1", "accuracy=none", "canary.enabled=false")
SLOW = ("+engine.options.decode-tps=0.5", "workload.concurrency=[1]")


def ask(cluster: Cluster, results: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m jobs ...` on the login node."""
    return subprocess.run(
        [sys.executable, "-m", "jobs", words[0], "--results", str(results), *words[1:]],
        env={**os.environ, **cluster.env(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def rows(cluster: Cluster, results: Path) -> dict[str, dict[str, Any]]:
    """`list --json` by the runs' names."""
    done = ask(cluster, results, "list", "--json")
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)}


def test_a_waiting_and_a_running_job_are_told_apart_and_cancelled_by_their_own_ids(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    results = tmp_path / "runs"
    running = launch(slurm_cluster, tmp_path, *SMALL, *SLOW)
    waiting = launch(slurm_cluster, tmp_path, *SMALL, "+cluster.sbatch.begin=now+1hour")
    name = slurm_cluster.run(
        "squeue", "-h", "-o%j", "-j", read(waiting / "submission.json")["job_id"]
    )
    stranger = slurm_cluster.run(
        *("sbatch", "--parsable", f"--job-name={name.strip()}", "-N1", "-t5", "--begin=now+1hour"),
        *("--wrap", "sleep 1"),
    ).strip()
    wait_for(lambda: rows(slurm_cluster, results)[running.name]["state"] == "sweep", 120, "a point")
    found = rows(slurm_cluster, results)
    assert (found[running.name]["slurm"], found[waiting.name]["slurm"]) == ("RUNNING", "PENDING")
    assert (found[waiting.name]["state"], found[waiting.name]["slurm_reason"]) == (
        *("queued",),
        "BeginTime",
    )
    done = ask(slurm_cluster, results, "cancel", running.name, waiting.name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken back" in done.stdout
    assert "asked to end the run" in done.stdout
    assert read(running / "outcome.json")["status"] == "cancelled"
    assert read(waiting / "outcome.json")["phase"] == "queued"
    found = rows(slurm_cluster, results)
    assert {one["state"] for one in found.values()} == {"cancelled"}
    assert not any(one["disagrees"] for one in found.values()), found
    assert slurm_cluster.run("squeue", "-h", "-o%T", "-j", stranger).strip() == "PENDING"
    slurm_cluster.run("scancel", stranger)
    again = ask(slurm_cluster, results, "cancel", running.name)
    assert (again.returncode, "has ended already" in again.stdout) == (0, True)


def test_a_run_is_watched_to_its_end_with_slurms_word_beside(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    results = tmp_path / "runs"
    run = launch(slurm_cluster, tmp_path, *SMALL)
    watch = ask(slurm_cluster, results, "watch", run.name)
    assert watch.returncode == 0, watch.stdout + watch.stderr
    assert "Slurm: RUNNING" in watch.stdout
    assert "= completed" in watch.stdout.splitlines()[-1]
    job = read(run / "submission.json")["job_id"]
    shown = ask(slurm_cluster, results, "show", job)
    assert shown.returncode == 0
    assert f"slurm {job}" in shown.stdout
    assert "3 of 3 landed" in shown.stdout
    logs = ask(slurm_cluster, results, "logs", job, "--worker", "decode", "-n", "all")
    assert {line.split(" ", 1)[0] for line in logs.stdout.splitlines()} == {"decode0"}
