"""Faults of Slurm's own parts, each as a function: it does the harm, waits, and tells what it saw.

Called by tests/test_slurm_faults.py one by one, and free to be called by a matrix of faults.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.store import RunDir
from tests.cluster import Cluster

ROOT = Path(__file__).resolve().parent.parent
WORDS = ("cluster=slurm_ci", "engine=rehearsal", "topology=dp1_prefill1x1", "workload=smoke")
SHORT = (*WORDS, "accuracy=none", "workload.concurrency=[1,2]")
LONG = (
    *(*WORDS, "accuracy=none", "workload.concurrency=[1,2,4]"),
    "workload.prompts_per_concurrency=150",
)


@dataclass
class Seen:
    """One fault: the run it was done to, seconds, and what was said."""

    run: RunDir
    outcome: dict[str, Any]
    attempts: list[dict[str, Any]]
    seconds: float
    said: str = ""
    jobs: list[str] = field(default_factory=list)

    @property
    def points(self) -> int:
        """Point records there are."""
        return len(list(self.run.points.glob("*.json")))


def command(cluster: Cluster, *words: str, **more: Any) -> subprocess.Popen[str]:
    """One of our programs against the test cluster."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        env={**cluster.env(), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def start_launcher(cluster: Cluster, folder: Path, *words: str) -> subprocess.Popen[str]:
    """`python -m launcher` with its runs in `folder`."""
    line = ("launcher", f"cluster.results_dir={folder}/runs", *words)
    return command(cluster, *line, cwd=folder)


def launched(process: subprocess.Popen[str], within_s: float = 300) -> tuple[RunDir, str]:
    """The run that a launcher made, and what it said."""
    out, err = process.communicate(timeout=within_s)
    assert process.returncode == 0, err + out
    line = next(line for line in out.splitlines() if line.startswith("run directory"))
    return RunDir(line.split()[-1]), err


def until(condition: Callable[[], object], seconds: float, what: str, run: RunDir | None) -> None:
    """Polls; AssertionError with the driver's log."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            logs = sorted(run.path.glob("submitit/*.out")) if run else []
            raise AssertionError(
                f"not within {seconds} s: {what}\n" + "\n".join(p.read_text() for p in logs)
            )
        time.sleep(0.2)


def wait_word(run: RunDir, word: str, seconds: float = 120) -> None:
    """Until an event's line has `word`."""
    until(lambda: run.events.exists() and word in run.events.read_text(), seconds, word, run)


def seen(run: RunDir, began: float, said: str = "") -> Seen:
    """What is in the run directory at the end."""
    outcome = json.loads(run.outcome.read_text())
    records = [json.loads(p.read_text()) for p in sorted(run.attempts.glob("[0-9].json"))]
    jobs = [record["job_id"] for record in records]
    return Seen(run, outcome, records, time.monotonic() - began, said, jobs)


def requeue_in_the_sweep(cluster: Cluster, folder: Path) -> Seen:
    """`scontrol requeue` once a point is written: the same job goes on by itself."""
    run, said = launched(start_launcher(cluster, folder, *LONG))
    wait_word(run, '"event": "point"')
    began = time.monotonic()
    job = json.loads(run.submission.read_text())["job_id"]
    watcher = command(cluster, "jobs", "wait", str(run.path), cwd=folder)
    cluster.run("scontrol", "requeue", job)
    until(run.outcome.exists, 240, "the requeued run ends", run)
    said += watcher.communicate(timeout=120)[1]
    assert watcher.returncode == 0, said
    return seen(run, began, said)


def preempted_in_the_sweep(cluster: Cluster, folder: Path) -> Seen:
    """A job of partition `urgent` takes the run's node for some seconds, once a point is written;
    Slurm puts the run back and starts it again."""
    run, said = launched(start_launcher(cluster, folder, *LONG, "cluster.partition=gb200"))
    wait_word(run, '"event": "point"')
    began = time.monotonic()
    (node,) = json.loads(run.allocation.read_text())["nodes"]
    watcher = command(cluster, "jobs", "wait", str(run.path), cwd=folder)
    where = ("--partition=urgent", f"--nodelist={node['name']}", "--exclusive", "--time=2")
    other = cluster.run("sbatch", "--parsable", *where, "--wrap", "sleep 3").strip()
    until(run.outcome.exists, 240, "the preempted run ends", run)
    said += watcher.communicate(timeout=120)[1]
    assert watcher.returncode == 0, said
    assert other not in cluster.run("squeue", "-h", "-o", "%i").split()
    return seen(run, began, said)


def cancel_and_resume(cluster: Cluster, folder: Path) -> Seen:
    """scancel once a point is written, then resume: a new job measures the rest."""
    run, said = launched(start_launcher(cluster, folder, *LONG))
    wait_word(run, '"event": "point"')
    job = json.loads(run.submission.read_text())["job_id"]
    early = command(cluster, "jobs", "resume", str(run.path), cwd=folder)
    said += early.communicate(timeout=120)[1]
    assert early.returncode == 2, said
    cluster.run("scancel", "--batch", "--signal=TERM", job)
    until(run.outcome.exists, 120, "the cancelled run ends", run)
    began = time.monotonic()
    again = command(cluster, "jobs", "resume", str(run.path), cwd=folder)
    said += again.communicate(timeout=120)[1]
    assert again.returncode == 0, said
    until(run.outcome.exists, 240, "the resumed run ends", run)
    return seen(run, began, said)


def controller_down_at_submission(cluster: Cluster, folder: Path, away_s: float = 20.0) -> Seen:
    """slurmctld is dead when the launcher submits, and comes back after `away_s`."""
    began = time.monotonic()
    cluster.kill_controller()
    back = threading.Timer(away_s, cluster.start_controller)
    back.start()
    try:
        run, said = launched(start_launcher(cluster, folder, *SHORT))
    finally:
        back.join()
    until(run.outcome.exists, 180, "the run ends", run)
    found = seen(run, began, said)
    listed = cluster.run("squeue", "-h", "--states=all", "--me", "-o", "%i|%j")
    tag = run.path.name.rsplit("-", 1)[-1]
    found.jobs = [line for line in listed.splitlines() if line.endswith(tag)]
    return found


def controller_restarted_in_the_run(cluster: Cluster, folder: Path, away_s: float = 15.0) -> Seen:
    """slurmctld dies while a point is measured and comes back; the follower stays throughout."""
    run, said = launched(start_launcher(cluster, folder, *LONG))
    watcher = command(cluster, "jobs", "wait", str(run.path), cwd=folder)
    wait_word(run, '"phase": "point')
    began = time.monotonic()
    cluster.kill_controller()
    time.sleep(away_s)
    cluster.start_controller()
    until(run.outcome.exists, 180, "the run ends", run)
    said += watcher.communicate(timeout=120)[1]
    assert watcher.returncode == 0, said
    return seen(run, began, said)


def controller_down_at_the_start(cluster: Cluster, folder: Path, away_s: float = 15.0) -> Seen:
    """slurmctld stops as the driver begins, so that its first questions and steps find nobody."""
    run, said = launched(start_launcher(cluster, folder, *SHORT))
    until(run.lock.exists, 120, "the driver begins", run)
    began = time.monotonic()
    cluster.stop_controller()
    time.sleep(away_s)
    cluster.start_controller()
    until(run.outcome.exists, 240, "the run ends", run)
    log = sorted(run.path.glob("submitit/*.out"))[-1].read_text()
    return seen(run, began, said + log)


def accounting_gone(cluster: Cluster, folder: Path) -> Seen:
    """slurmdbd is dead from before the submission to after the end; a follower waits."""
    began = time.monotonic()
    cluster.kill_accounting()
    try:
        run, said = launched(start_launcher(cluster, folder, *SHORT, "wait=true"))
        return seen(run, began, said)
    finally:
        cluster.start_accounting()


def no_accounting(cluster: Cluster, folder: Path) -> Seen:
    """A plain run on a cluster without any accounting, followed to its end and asked after it."""
    began = time.monotonic()
    run, said = launched(start_launcher(cluster, folder, *SHORT, "wait=true"))
    asked = command(cluster, "jobs", "state", str(run.path), cwd=folder)
    out, err = asked.communicate(timeout=120)
    assert json.loads(out)["state"] == "completed", out + err
    return seen(run, began, said + err)
