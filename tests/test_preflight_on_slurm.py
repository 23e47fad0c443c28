"""The preflight on real Slurm nodes with planted faults; what follows from them; segments.

A fault lives on one node only: in its network namespace (a stranger's port) or in the mounts of its
slurmd (another file, another folder under the same path).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.test_on_slurm import ROOT, launch, read, wait_for
from tests.test_preflight_node import safetensors
from tests.test_segments import SLURM_SAID

pytestmark = pytest.mark.slurm

SMALL = ("cluster=slurm_ci", "engine=rehearsal", "topology=dp1_prefill1x1", "workload=smoke")
QUICK = (
    *SMALL,
    "topology.share_nodes=false",
    "accuracy=none",
    "canary.enabled=false",
    "workload.concurrency=[1]",
)
HTTP = 8100


def enter(cluster: Cluster, node: str) -> list[str]:
    """The words before a command that make it run on a node: its network, mounts and name."""
    (slurmd,) = [p for p in cluster.daemons() if p.name == f"slurmd {node}" and p.is_alive()]
    return ["nsenter", f"--target={slurmd.pid}", "--mount", "--net", "--uts"]


@contextmanager
def stranger(cluster: Cluster, node: str, port: int) -> Iterator[None]:
    """A process of somebody else that listens on a node's port."""
    address = cluster.spec.address(node)
    code = (
        "import socket, time; s = socket.socket(); s.setsockopt(1, 2, 1);"
        f"s.bind(('{address}', {port})); s.listen(); print('listens', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen(
        [*enter(cluster, node), sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "listens\n"
        yield
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def covered(cluster: Cluster, node: str, over: Path, by: Path) -> Iterator[None]:
    """On one node `over` shows what `by` holds."""
    words = enter(cluster, node)
    subprocess.run([*words, "mount", "--bind", str(by), str(over)], check=True)
    try:
        yield
    finally:
        subprocess.run([*words, "umount", "--lazy", str(over)], check=True)


def engine_env(folder: Path, version: str) -> Path:
    """An environment with a real Python and vllm's metadata, and nothing that could serve."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    distribution(site / "vllm-0.32.0.dist-info", version)
    (folder / "bin" / "vllm").write_text("#!/bin/sh\nexit 9\n")
    (folder / "bin" / "vllm").chmod(0o755)
    return site / "vllm-0.32.0.dist-info"


def distribution(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return folder


def fail(cluster: Cluster, tmp_path: Path, *words: str) -> tuple[dict[str, Any], Path]:
    """A run that waits for its own failure: its outcome and directory."""
    done = submit(cluster, tmp_path, *words, "wait=true")
    assert done.returncode == 1, done.stderr + done.stdout
    run = run_of(done)
    outcome: dict[str, Any] = read(run / "outcome.json")
    return outcome, run


def submit(cluster: Cluster, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launcher", f"cluster.results_dir={tmp_path}/runs", *words],
        cwd=tmp_path,
        env={**cluster.env(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_of(done: subprocess.CompletedProcess[str]) -> Path:
    lines = [line for line in done.stdout.splitlines() if line.startswith("run directory")]
    return Path(lines[0].split()[-1])


def test_three_faults_on_three_of_18_nodes_are_named_at_once(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    metadata = engine_env(tmp_path / "env", "0.32.0+cpu")
    other = distribution(tmp_path / "other", "0.31.1+cpu")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    (model / "tokenizer.json").write_text("{}")
    safetensors(model / "model.safetensors", 64)
    safetensors(tmp_path / "short.safetensors", 40)
    with ExitStack() as faults:
        faults.enter_context(stranger(slurm_cluster, "node5", HTTP))
        weights = model / "model.safetensors"
        faults.enter_context(
            covered(slurm_cluster, "node9", weights, tmp_path / "short.safetensors")
        )
        faults.enter_context(covered(slurm_cluster, "node13", metadata, other))
        outcome, run = fail(
            slurm_cluster,
            tmp_path,
            *("cluster=slurm_ci", "cluster.exclude='node[19-36]'", "engine=vllm_cpu"),
            *(f"engine.env_dir={tmp_path}/env", f"model.path={model}", "model=smollm2_135m"),
            *("flags=cpu", "workload=smoke", "accuracy=none", "allow_dirty=true"),
            *("topology=dep8_prefill4x2", "topology.roles.prefill.endpoints=32"),
            *(f"topology.roles.{role}.expert_parallel=false" for role in ("prefill", "decode")),
        )
    record = read(run / "preflight.json")
    print(f"preflight of 18 nodes: {record['took_s']} s\n{outcome['cause']}")  # noqa: T201
    assert outcome["phase"] == "preflight"
    head = "3 of 18 nodes not fit: engine: 1 node, model files: 1 node, ports: 1 node"
    assert head in outcome["cause"]
    failed = {
        (label, check, told["value"])
        for label, node in record["nodes"].items()
        for check, told in node["checks"].items()
        if told["state"] == "failed"
    }
    assert {(label, check) for label, check, _ in failed} == {
        ("node5", "ports"),
        ("node9", "model files"),
    }
    odd = [p for p in record["problems"] if p["check"] == "engine" and p["state"] == "failed"]
    assert [problem["nodes"] for problem in odd] == [["node13"]]
    assert len(record["problems"]) == 3
    assert "vllm 0.31.1+cpu" in outcome["cause"]
    assert "110 bytes, its header says 134" in outcome["cause"]
    assert f"{HTTP} of prefill8 (http): Address already in use" in outcome["cause"]
    assert len(record["nodes"]) == 18


def test_a_node_with_another_folder_under_the_run_directorys_path_is_named(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    runs, local = tmp_path / "runs", tmp_path / "local"
    runs.mkdir()
    local.mkdir()
    with covered(slurm_cluster, "node36", runs, local):
        # The last of two nodes: on the first, the driver itself would not find its run.
        outcome, _ = fail(slurm_cluster, tmp_path, *QUICK, "cluster.exclude='node[1-34]'")
    # The code that runs is beside the runs, so the node has no program to say more with.
    assert "1 of 2 nodes not fit: answer: 1 node" in outcome["cause"]
    assert "node36  no report: the launcher's code is not in" in outcome["cause"]
    assert "a node-local folder under the same path" in outcome["cause"]


def test_a_run_goes_on_without_a_bad_node_in_the_same_directory(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    with stranger(slurm_cluster, "node33", HTTP):
        words = (*QUICK, "cluster.exclude='node[1-32]'", "on_bad_node=exclude", "wait=true")
        run = launch(slurm_cluster, tmp_path, *words)
    assert read(run / "outcome.json")["status"] == "completed"
    record = read(run / "submission.json")
    moved = record["resubmission"]
    assert moved["to_job"] == record["job_id"] != moved["from_job"]
    assert list(moved["excluded"]) == ["node33"]
    assert f"{HTTP} of " in moved["excluded"]["node33"]
    assert moved["exclude"] == "node[1-32],node33"
    allocation = read(run / "allocation.json")
    assert allocation["job_id"] == record["job_id"]
    assert "node33" not in [node["name"] for node in allocation["nodes"]]
    first = read(run / f"preflight-{moved['from_job']}.json")
    assert (first["fit"], read(run / "preflight.json")["fit"]) == (False, True)
    assert Path(record["log"]).exists()


def test_a_run_is_submitted_again_only_once(slurm_cluster: Cluster, tmp_path: Path) -> None:
    with stranger(slurm_cluster, "node33", HTTP), stranger(slurm_cluster, "node35", HTTP):
        words = (*QUICK, "cluster.exclude='node[1-32]'", "on_bad_node=exclude")
        outcome, run = fail(slurm_cluster, tmp_path, *words)
    assert "it was submitted again once already, without node33" in outcome["cause"]
    assert "node35" in outcome["cause"]
    assert len(list((run / "submitit").glob("*_log.out"))) == 2


def test_a_partition_that_cannot_hold_the_run_without_the_node_is_said(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    with stranger(slurm_cluster, "node35", HTTP):
        words = (*QUICK, "cluster.exclude='node[1-34]'", "on_bad_node=exclude")
        outcome, _ = fail(slurm_cluster, tmp_path, *words)
    assert "the partition cannot hold 2 nodes in segments of 2 without them" in outcome["cause"]


@pytest.mark.parametrize(("nodes", "segment", "accepted"), SLURM_SAID)
def test_slurm_itself_takes_and_refuses_these_segments(
    slurm_cluster: Cluster, nodes: int, segment: int, accepted: bool
) -> None:
    done = subprocess.run(
        ["sbatch", "--test-only", f"-N{nodes}", f"--segment={segment}", "--wrap=true"],
        env=slurm_cluster.env(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) is accepted


def test_a_segment_that_does_not_fit_is_explained_and_a_divisor_taken_where_allowed(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    words = tuple(word for word in QUICK if not word.startswith("topology"))
    words = (*words, "topology=dep8_prefill4x2", "topology.roles.prefill.endpoints=36")
    words = (*words, "cluster.nvlink_domain_nodes=20")
    refused = submit(slurm_cluster, tmp_path, *words)
    assert refused.returncode == 2
    assert "20 nodes in segments of 20 do not fit" in refused.stderr
    assert "rack1 18, rack2 18" in refused.stderr
    assert "segments that fit: 10, 5, 4, 2; set cluster.segment=10" in refused.stderr
    assert list((tmp_path / "runs").iterdir()) == []
    taken = submit(slurm_cluster, tmp_path, *words, "cluster.segment_fallback=divisor")
    assert taken.returncode == 0, taken.stderr
    assert "segment        10 instead of 20: sbatch refused the job" in taken.stdout
    run = run_of(taken)
    slurm_cluster.run("scancel", read(run / "submission.json")["job_id"])
    assert read(run / "submission.json")["segment"]["used"] == 10
    plan = json.loads((run / "run.json").read_text())["plan"]
    assert (plan["segment"], plan["segment_asked"]) == (10, 20)
    assert "--segment=10" in (run / "batch.sh").read_text()
    wait_for(lambda: _gone(slurm_cluster, run), 120, "the cancelled job's end")


def _gone(cluster: Cluster, run: Path) -> bool:
    job = read(run / "submission.json")["job_id"]
    return cluster.run("squeue", "-h", "-t", "running,completing,pending", "-o", "%i").find(job) < 0
