"""The cluster between two rows: whole and empty, whatever the row before did to it."""

from __future__ import annotations

import getpass
import subprocess

from tests.cluster import Cluster, ClusterError
from tests.cluster.processes import wait_until

EMPTY_S = 60.0
"""Longest wait for the last row's job to be gone from its nodes."""
SPARE_NODES = 4
"""Nodes that may still be on their way back: rows need 4 of 36."""


def make_whole() -> None:
    """All daemons up, no job, nodes idle; a cluster that does not come to that is made anew."""
    cluster = Cluster()
    try:
        whole = cluster.is_up() and _emptied(cluster)
    except (ClusterError, subprocess.TimeoutExpired):
        whole = False
    if not whole:
        take_down()
        cluster.up()


def take_down() -> None:
    """Whatever shape of it is there."""
    spec = Cluster().spec
    if (spec.directory / "cluster.json").is_file():
        Cluster.at(spec.directory).down()


def _emptied(cluster: Cluster) -> bool:
    if Cluster.at(cluster.spec.directory).spec != cluster.spec:
        return False
    if not any(it.name == "slurmdbd" and it.is_alive() for it in cluster.daemons()):
        cluster.start_accounting()
    if cluster.run("squeue", "-h", "-o", "%i").split():
        cluster.run("scancel", "--full", f"--user={getpass.getuser()}")
    return wait_until(lambda: _is_empty(cluster), EMPTY_S, every_s=0.3)


def _is_empty(cluster: Cluster) -> bool:
    idle = set(cluster.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())
    jobs = cluster.run("squeue", "-h", "-o", "%i").split()
    return not jobs and len(idle) >= cluster.spec.nodes - SPARE_NODES
