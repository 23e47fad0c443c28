"""What the test cluster promises, and what of real Slurm the product leans on."""

import textwrap
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterError, network
from tests.cluster.processes import observe, wait_until

pytestmark = pytest.mark.slurm

STEP = "srun --nodes=1 --ntasks=1 --overlap --gpus-per-node=4 --cpu-bind=none --mem=0"


def submit(cluster: Cluster, folder: Path, options: str, script: str) -> str:
    """Submit a batch script; its job id."""
    path = folder / "job.sh"
    path.write_text("#!/bin/bash\nset -eu\n" + textwrap.dedent(script))
    return cluster.run(
        "sbatch", "--parsable", f"--output={folder}/%j.out", *options.split(), str(path)
    ).strip()


def state(cluster: Cluster, job: str) -> str:
    """The job's state word."""
    return cluster.run("squeue", "-h", "-j", job, "-t", "all", "-o", "%T").strip()


def finish(cluster: Cluster, folder: Path, job: str) -> str:
    """Wait for the end of a job; what it printed."""
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
    output = folder / f"{job}.out"
    assert wait_until(lambda: state(cluster, job) in over, 120), f"{job} is {state(cluster, job)}"
    text = output.read_text() if output.exists() else ""
    assert state(cluster, job) == "COMPLETED", text
    return text


def test_segments_of_ten_land_in_two_blocks(slurm_cluster: Cluster, tmp_path: Path) -> None:
    job = submit(
        slurm_cluster,
        tmp_path,
        "--nodes=20 --segment=10 --gpus-per-node=4 --exclusive",
        "scontrol show hostnames",
    )
    names = finish(slurm_cluster, tmp_path, job).split()
    racks = [(int(name.removeprefix("node")) - 1) // 18 for name in names]
    assert (racks.count(0), racks.count(1)) == (10, 10)


@pytest.mark.parametrize("shape", ["--nodes=20 --segment=19", "--nodes=20 --segment=8"])
def test_a_segment_that_cannot_be_met_is_refused(
    slurm_cluster: Cluster, tmp_path: Path, shape: str
) -> None:
    with pytest.raises(ClusterError, match="Requested topology configuration is not available"):
        submit(slurm_cluster, tmp_path, shape, "true")


def test_a_pinned_step_sees_its_hostname_and_the_gpus_named_for_it(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    job = submit(
        slurm_cluster,
        tmp_path,
        "--nodes=2 --gpus-per-node=4",
        f"""
        last=$(scontrol show hostnames | tail -1)
        show='echo "$(hostname) $CUDA_VISIBLE_DEVICES"'
        echo "$last"
        {STEP} --nodelist=$last sh -c "$show"
        {STEP} --nodelist=$last env CUDA_VISIBLE_DEVICES=2,3 sh -c "$show"
        """,
    )
    last, every, named = finish(slurm_cluster, tmp_path, job).splitlines()
    assert (every, named) == (f"{last} 0,1,2,3", f"{last} 2,3")


def test_two_nodes_serve_one_port_and_are_reached_by_their_addresses(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    job = submit(
        slurm_cluster,
        tmp_path,
        "--nodes=3 --gpus-per-node=4",
        f"""
        serve='mkdir $0/$(hostname); hostname > $0/$(hostname)/name; cd $0/$(hostname);
               exec python3 -m http.server 8000'
        for node in $(scontrol show hostnames | tail -2); do
            {STEP} --nodelist=$node sh -c "$serve" {tmp_path} >/dev/null 2>&1 &
            address=$(scontrol show node $node | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')
            url=http://$address:8000/name
            read='import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())'
            until answer=$(python3 -c "$read" $url 2>/dev/null); do sleep 0.2; done
            echo "$node $answer"
        done
        kill $(jobs -p)
        """,
    )
    pairs = [line.split() for line in finish(slurm_cluster, tmp_path, job).splitlines()]
    pairs = [pair for pair in pairs if len(pair) == 2 and pair[0].startswith("node")]
    assert len(pairs) == 2
    assert all(node == answer for node, answer in pairs)


def test_sacct_knows_that_a_job_completed(slurm_cluster: Cluster, tmp_path: Path) -> None:
    job = submit(slurm_cluster, tmp_path, "--nodes=1", "true")
    finish(slurm_cluster, tmp_path, job)
    ask = ("sacct", "-X", "-n", "-P", "-j", job, "-o", "State")
    assert wait_until(lambda: slurm_cluster.run(*ask).strip() == "COMPLETED", 60)


STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork() or os.setsid()
(pathlib.Path(sys.argv[1]) / str(os.getpid())).touch()
time.sleep(300)
"""


def test_a_cancelled_step_that_ignores_term_leaves_no_survivors(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    pids = tmp_path / "pids"
    pids.mkdir()
    job = submit(
        slurm_cluster,
        tmp_path,
        "--nodes=1 --gpus-per-node=4",
        f"{STEP} python3 {tmp_path}/stubborn.py {pids}",
    )
    assert wait_until(lambda: len(list(pids.iterdir())) == 2, 60)
    survivors = [p for p in (observe("task", int(f.name)) for f in pids.iterdir()) if p]
    assert len(survivors) == 2
    slurm_cluster.run("scancel", job)
    assert wait_until(lambda: state(slurm_cluster, job) == "CANCELLED", 60)
    assert [p for p in survivors if p.is_alive()] == []


def test_a_crashed_node_loses_every_process_and_comes_back(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    slurm_cluster.crash_node("node36")
    assert list(network.processes_inside(["node36"])) == []
    slurm_cluster.start_node("node36")
    job = submit(slurm_cluster, tmp_path, "--nodes=1 --nodelist=node36", "hostname")
    assert finish(slurm_cluster, tmp_path, job) == "node36\n"


def test_down_leaves_no_process_and_no_namespace(slurm_cluster: Cluster, tmp_path: Path) -> None:
    submit(slurm_cluster, tmp_path, "--nodes=1 --gpus-per-node=4", f"{STEP} sleep 300")
    before = [*slurm_cluster.daemons(), *network.processes_inside(network.namespaces())]
    slurm_cluster.down()
    try:
        assert [p for p in before if p.is_alive()] == []
        assert network.namespaces() == []
        assert not Path("/sys/class/net", network.BRIDGE).exists()
    finally:
        slurm_cluster.up()
