"""The whole launch path on a real slurmctld: submit, place, meet, measure, end, tabulate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.engine import ENGINE_ENV, needs_engine

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = {4: 4, 5: 5, 6: 5, 7: 6, 8: 6}
REHEARSAL = ("cluster=slurm_ci", "engine=rehearsal", "workload=smoke")


def launch(cluster: Cluster, tmp_path: Path, *words: str) -> Path:
    """`python -m launcher` against the test cluster; the run directory it made."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", f"cluster.results_dir={tmp_path}/runs", *words],
        cwd=tmp_path,
        env={**cluster.env(), "PYTHONPATH": str(ROOT), "ENGINE_ENV": str(ENGINE_ENV)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("run directory")]
    return Path(lines[0].split()[-1])


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until `condition`; fail with `what` otherwise."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def table(*runs: Path) -> subprocess.CompletedProcess[str]:
    """`python -m analysis table`."""
    return subprocess.run(
        [sys.executable, "-m", "analysis", "table", *map(str, runs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def state_of(cluster: Cluster, run: Path) -> str:
    """The job's state by accounting."""
    job = read(run / "submission.json")["job_id"]
    return cluster.run("sacct", "-nXP", "-j", job, "-o", "State").strip()


def test_the_five_published_topologies_run_each_within_one_block(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    runs = {
        n: launch(slurm_cluster, tmp_path, *REHEARSAL, f"topology=dep8_prefill{n}x2")
        for n in PUBLISHED
    }
    for n, run in runs.items():
        wait_for((run / "outcome.json").exists, 240, f"{run.name} ends")
        assert read(run / "outcome.json")["status"] == "completed", read(run / "outcome.json")
        names = [node["name"] for node in read(run / "allocation.json")["nodes"]]
        assert len(set(names)) == PUBLISHED[n]
        assert len({(int(name.removeprefix("node")) - 1) // 18 for name in names}) == 1
        assert len(list((run / "points").glob("*.json"))) == 3
        pairs = read(run / "canary.json")["pairs"]
        assert len(pairs) == 2 * n * 8
    for run in runs.values():
        wait_for(lambda run=run: state_of(slurm_cluster, run) == "COMPLETED", 120, run.name)  # type: ignore[misc]
    shown = table(*runs.values())
    assert shown.returncode == 0, shown.stdout
    assert shown.stdout.count("REHEARSAL  completed") == 15


def test_a_cancelled_job_says_so_and_leaves_no_process(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    words = (*REHEARSAL, "topology=dep8_prefill4x2", "workload.concurrency=[64]")
    run = launch(slurm_cluster, tmp_path, *words, "workload.prompts_per_concurrency=4000")
    wait_for(lambda: (run / "canary.json").exists(), 120, "the canary")
    job = read(run / "submission.json")["job_id"]
    slurm_cluster.run("scancel", "--batch", "--signal=TERM", job)
    wait_for((run / "outcome.json").exists, 120, "outcome.json after TERM")
    assert read(run / "outcome.json")["status"] == "cancelled"
    wait_for(lambda: _processes_of(run) == [], 60, "no process of the run is left")


def _processes_of(run: Path) -> list[str]:
    """Command lines that name the run or serve as its rehearsal workers."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environ = (folder / "environ").read_bytes().decode(errors="replace")
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if run.name in environ and state != "Z" and int(folder.name) != os.getpid():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def test_the_batch_steps_line_by_hand_inside_an_allocation_does_the_same(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    words = (*REHEARSAL, "topology=dp1_prefill1x1", "accuracy=none")
    first = launch(slurm_cluster, tmp_path, *words, "wait=true")
    again = tmp_path / "by-hand"
    again.mkdir(mode=0o700)
    document = read(first / "run.json")
    document["run_id"] = again.name
    (again / "run.json").write_text(json.dumps(document))
    done = subprocess.run(
        [
            *("salloc", "-N1", "--gpus-per-node=4", "--exclusive", "--mem=0", "-t5", "srun", "-n1"),
            *("--gpus-per-node=4", "--overlap", sys.executable, "-m", "jobs", "run", str(again)),
        ],
        env={**slurm_cluster.env(), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read(again / "outcome.json")["status"] == "completed"


def test_a_segment_no_block_can_hold_is_refused_by_slurm_and_leaves_nothing(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "launcher", f"cluster.results_dir={tmp_path}/runs"),
            *(*REHEARSAL, "topology.roles.prefill.endpoints=40", "cluster.nvlink_domain_nodes=40"),
        ],
        cwd=tmp_path,
        env={**slurm_cluster.env(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "22 nodes in segments of 22 do not fit: the job may use these nodes" in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.engine
@needs_engine
def test_the_real_vllm_hybrid_runs_on_slurm_with_kv_over_nixl(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    run = launch(
        slurm_cluster,
        tmp_path,
        *("cluster=slurm_ci", "topology=dp1_prefill1x1", "model=tiny_qwen3_5", "flags=cpu_hybrid"),
        *("engine=vllm_cpu", "workload=smoke", "workload.concurrency=[1,2]", "accuracy=none"),
        *("allow_dirty=true", "wait=true"),
    )
    assert read(run / "outcome.json")["status"] == "completed"
    points = [read(path) for path in sorted((run / "points").glob("*.json"))]
    assert [point["completed"] for point in points] == [4, 8]
    assert all(point["failed"] == 0 for point in points)
    for point in points:
        counters = point["server"]
        assert counters["decode_external_tokens"] >= 0.98 * point["total_input_tokens"]
        assert counters["kv_bytes"] > 0
        assert counters["kv_failed"] == 0
