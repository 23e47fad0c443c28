"""Staging on real Slurm nodes, each with a small disk of its own (a tmpfs in its mounts)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jobs.stage.shelf import models_folder
from tests.cluster import Cluster
from tests.test_preflight_node import safetensors
from tests.test_preflight_on_slurm import QUICK, enter, fail, run_of, submit

pytestmark = pytest.mark.slurm

NODES = ("node3", "node4", "node5")
WORDS = (
    *(*QUICK, "topology.roles.prefill.endpoints=2", "topology.roles.prefill.tp=4"),
    *("topology.roles.decode.tp=4", "cluster.min_free_disk_gb=0"),
    "cluster.exclude='node[1-2,6-36]'",
)


@contextmanager
def disk(cluster: Cluster, node: str, folder: Path, size: str) -> Iterator[None]:
    """A disk of its own for one node."""
    words = enter(cluster, node)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(folder)]
    subprocess.run([*words, *mount], check=True)
    try:
        yield
    finally:
        subprocess.run([*words, "umount", "--lazy", str(folder)], check=True)


def model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    safetensors(folder / "model.safetensors", 64)
    (folder / "more.bin").write_bytes(bytes(4_000_000))
    return folder


def test_a_model_is_staged_once_a_node_reused_and_a_short_copy_stops_the_run(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    words = (*WORDS, f"model.path={model(tmp_path / 'model')}", f"cluster.stage.dir={local}")
    with ExitStack() as disks:
        for node in NODES:
            disks.enter_context(disk(slurm_cluster, node, local, "64m"))
        told = []
        for _ in range(2):
            done = submit(slurm_cluster, tmp_path, *words, "wait=true")
            assert done.returncode == 0, done.stdout + done.stderr
            (line,) = [
                line
                for line in (run_of(done) / "events.jsonl").read_text().splitlines()
                if '"staged"' in line
            ]
            told.append(line)
        assert "copied to 3, there already on 0" in told[0]
        assert "copied to 0, there already on 3" in told[1]
        (copy,) = _on(slurm_cluster, "node4", "ls", str(models_folder(str(local)))).split()[:1]
        weights = models_folder(str(local)) / copy.removesuffix(".json") / "model.safetensors"
        _on(slurm_cluster, "node4", "truncate", "--size=100", str(weights))
        outcome, run = fail(slurm_cluster, tmp_path, *words)
        assert outcome["phase"] == "stage"
        assert "1 of 3 nodes have no whole copy" in outcome["cause"]
        assert "node4: " in outcome["cause"]
        assert "has 100 bytes instead of" in outcome["cause"]
        assert not list((run / "logs").glob("decode*"))


def test_a_node_without_room_is_told_in_the_preflight(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    words = (*WORDS, f"model.path={model(tmp_path / 'model')}", f"cluster.stage.dir={local}")
    with ExitStack() as disks:
        for node, size in zip(NODES, ("64m", "1m", "64m"), strict=True):
            disks.enter_context(disk(slurm_cluster, node, local, size))
        outcome, _ = fail(slurm_cluster, tmp_path, *words)
    assert outcome["phase"] == "preflight"
    assert "staged model" in outcome["cause"]
    assert "node4" in outcome["cause"]


def _on(cluster: Cluster, node: str, *words: str) -> str:
    done = subprocess.run(
        [*enter(cluster, node), *words], capture_output=True, text=True, check=True
    )
    return done.stdout
