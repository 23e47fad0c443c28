"""The session's Slurm cluster for tests; skipped with a reason where it cannot run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import LOCK, SHAPE, Cluster
from tests.cluster.spec import ClusterSpec


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """Two racks of 18 nodes x 4 GPUs; one that is already up with this shape is used and left."""
    spec = ClusterSpec()
    if os.geteuid() != 0:
        pytest.skip("the Slurm test cluster needs root: network namespaces and the freezer cgroup")
    if not Cluster(spec).installed():
        pytest.skip(f"no Slurm in {spec.prefix}: python -m tests.cluster install")
    cluster = Cluster(spec)
    running = _running()
    if running is not None and running.spec != spec:
        where = running.spec.directory
        pytest.skip(f"another cluster is up in {where}: python -m tests.cluster down --dir {where}")
    if running is None:
        cluster.up()
    try:
        yield cluster
    finally:
        if running is None:
            cluster.down()


def _running() -> Cluster | None:
    """The cluster that is up on this machine, whoever started it."""
    directory = Path(LOCK.read_text().strip() if LOCK.exists() else "/nonexistent")
    cluster = Cluster.at(directory) if (directory / SHAPE).is_file() else None
    return cluster if cluster is not None and cluster.is_up() else None
