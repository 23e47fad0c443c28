"""The dry run's whole text per topology, to be read in review. `make golden` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.compose import text_of
from tests.test_conf import TOPOLOGIES

GOLDEN = Path(__file__).parent / "golden"
CASES = {name: (f"topology={name}",) for name in TOPOLOGIES} | {
    "containers-pyxis": (
        "topology=dep8_prefill4x2",
        "cluster.container.kind=pyxis",
        "cluster.container.image=/images/vllm.sqsh",
        "workload.concurrency=[64]",
    ),
    "containers-apptainer": (
        "topology=dep8_prefill4x2",
        "cluster.container.kind=apptainer",
        "cluster.container.image=/images/vllm.sif",
        "workload.concurrency=[64]",
    ),
    "internal-load-balancing": (
        "topology=dep8_prefill4x2",
        "topology.roles.decode.load_balancing=internal",
        "workload.concurrency=[64]",
    ),
    "rehearsal": ("engine=rehearsal", "workload=smoke"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_dry_run_prints_what_was_reviewed(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = text_of(*CASES[name])
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"run `make golden` and read the difference of {path.name}"
