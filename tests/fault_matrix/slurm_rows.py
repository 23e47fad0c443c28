"""Faults on a real slurmctld: 4 nodes with rehearsal workers, decode over two of them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from tests import slurm_faults
from tests.cluster import Cluster
from tests.cluster.processes import kill as kill_processes
from tests.cluster.spec import ClusterSpec
from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.slurm_stage import SlurmStage, submitted

LOOK_LIMIT_S = 14.0
"""no_answer_s = 6 of these runs, and a look in between."""

HEADLESS = ("--role", "decode", "--headless")


def up() -> Cluster:
    """The cluster that the command has started."""
    cluster = Cluster()
    assert cluster.is_up(), "start it: python -m tests.cluster up"
    return cluster


def in_second_point(strike: Callable[[SlurmStage], None], *words: str) -> Callable[[Path], Seen]:
    """A fault while the second point runs."""

    def run(folder: Path) -> Seen:
        stage = submitted(up(), folder, *words)
        stage.second_point()
        strike(stage)
        return stage.seen()

    return run


def scancel(stage: SlurmStage) -> None:
    stage.strike()
    stage.cluster.run("scancel", stage.job)


def scancel_in(phase: str, *words: str) -> Callable[[Path], Seen]:
    def run(folder: Path) -> Seen:
        stage = submitted(up(), folder, *words)
        stage.wait_for(event="phase", phase=phase)
        scancel(stage)
        return stage.seen()

    return run


def crash(stage: SlurmStage) -> None:
    """The last node, which has the headless half of decode, loses power."""
    stage.strike()
    stage.cluster.crash_node(stage.name_of(3))


def node_crash(folder: Path) -> Seen:
    stage = submitted(up(), folder)
    stage.second_point()
    crash(stage)
    try:
        seen = stage.seen()
    finally:
        stage.cluster.start_node(stage.name_of(3))
    # Slurm goes on listing a dead node's step until it declares the node down.
    listed = [it for it in seen.survivors if it.startswith("step ")]
    left = [it for it in seen.survivors if it not in listed]
    return replace(seen, said=f"{seen.said} [Slurm still lists: {listed}]", survivors=left)


def node_unplugged(folder: Path) -> Seen:
    stage = submitted(up(), folder)
    stage.second_point()
    stage.strike()
    name = stage.name_of(0 if stage.name_of(0) != batch_node(stage) else 1)
    stage.cluster.set_plugged(name, plugged=False)
    try:
        seen = stage.seen(90)
    finally:
        stage.cluster.set_plugged(name, plugged=True)
    # What lives on a node that nobody reaches can only be ended when it is back: Slurm does that.
    stage.until(lambda: not stage.left(0.2), 60, "the node that came back is clean")
    return replace(seen, survivors=stage.left())


def batch_node(stage: SlurmStage) -> str:
    """The node on which the driver runs."""
    return stage.cluster.run("squeue", "-h", "-j", stage.job, "-o", "%B").strip()


def controller_down_at_the_end(folder: Path) -> Seen:
    stage = submitted(up(), folder)
    stage.second_point()
    stage.cluster.kill_controller()
    try:
        stage.kill(signal.SIGKILL, "--role", "decode", "--port")
        return stage.seen()
    finally:
        stage.cluster.start_controller()


@contextmanager
def whole() -> Iterator[Cluster]:
    """The cluster that the command has started."""
    yield up()


@contextmanager
def without_accounting() -> Iterator[Cluster]:
    """In its place a small one that keeps no accounts (accounting_storage/none)."""
    usual = up()
    usual.down()
    small = Cluster(ClusterSpec(racks=1, rack_nodes=2, accounting=False))
    try:
        small.up()
        yield small
    finally:
        small.down()
        usual.up()


def of_slurm(
    do: Callable[[Cluster, Path], slurm_faults.Seen],
    where: Callable[[], AbstractContextManager[Cluster]] = whole,
) -> Callable[[Path], Seen]:
    """A fault of Slurm's own parts, from tests/slurm_faults.py; such a run goes on to its end."""

    def run(folder: Path) -> Seen:
        with where() as cluster:
            found = do(cluster, folder)
        lines = [line for line in found.said.splitlines() if "slurm" in line.lower()]
        return Seen(
            said=f"{len(found.attempts)} attempt(s); " + " / ".join(lines[:2]),
            status=found.outcome["status"],
            notice_s=None,
            clean_s=None,
            survivors=found.outcome["teardown"]["survivors"],
            points_kept=found.points,
            points_before=found.outcome["points_planned"],
        )

    return run


def time_limit(folder: Path) -> Seen:
    words = ("cluster.time='00:01:00'", "cluster.grace_s=15", "workload.concurrency=[1,2,3,4,5,6]")
    stage = submitted(up(), folder, *words)
    stage.wait_for(event="phase", phase="point c2")
    stage.strike()
    seen = stage.seen(120)
    return replace(seen, notice_s=None)


def driver_killed(folder: Path) -> Seen:
    stage = submitted(up(), folder)
    stage.second_point()
    stage.strike()
    pid = json.loads((stage.run / "allocation.json").read_text())["driver_pid"]
    kill_processes([it for it in stage.seen_pids if it.pid == pid])
    begun = time.monotonic()
    stage.until(lambda: not stage.left(0.1), 30, "Slurm cleans up")
    return Seen(
        said="no outcome.json: the batch step's end made Slurm end all steps",
        status="?" if stage.outcome.exists() else "lost",
        notice_s=None,
        clean_s=round(time.monotonic() - begun, 2),
        survivors=stage.left(),
        points_kept=len(list((stage.run / "points").glob("*.json"))),
        points_before=stage.before,
    )


def to_driver(stage: SlurmStage) -> None:
    stage.strike()
    stage.cluster.run("scancel", "--batch", "--signal=TERM", stage.job)


def graceful(folder: Path) -> Seen:
    """The driver is told to end: workers get TERM and their time, nobody is killed."""
    stage = submitted(up(), folder)
    stage.second_point()
    to_driver(stage)
    seen = stage.seen()
    torn = json.loads(stage.outcome.read_text())["teardown"]
    return replace(seen, said=f"{seen.said}; {torn['killed']} of {torn['processes']} by KILL")


ROWS = (
    Row(
        name="slurm-worker-sigkill",
        fault="prefill worker SIGKILL on its node",
        moment="second point",
        strike=in_second_point(lambda stage: stage.kill(signal.SIGKILL, "--role", "prefill")),
        says=("(prefill) on node", "SIGKILL", "during point c64"),
        quick=True,
    ),
    Row(
        name="slurm-node-crash",
        fault="the headless decode node loses power",
        moment="second point",
        strike=node_crash,
        says=("decode0-n1 (decode) on node",),
        notice_limit_s=LOOK_LIMIT_S,
    ),
    Row(
        name="slurm-node-unplugged",
        fault="the network of a prefill node is pulled",
        moment="second point",
        strike=node_unplugged,
        says=("(prefill) on node",),
        notice_limit_s=LOOK_LIMIT_S,
    ),
    Row(
        name="slurm-controller-down-at-end",
        fault="slurmctld down, then decode's leader SIGKILL",
        moment="second point",
        strike=controller_down_at_the_end,
        says=("(decode) on node",),
        notice_limit_s=LOOK_LIMIT_S,
    ),
    Row(
        name="slurm-controller-restart",
        fault="slurmctld SIGKILL, back after 15 s",
        moment="a point",
        strike=of_slurm(slurm_faults.controller_restarted_in_the_run),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-controller-down-at-submission",
        fault="slurmctld down, back after 20 s",
        moment="submission",
        strike=of_slurm(slurm_faults.controller_down_at_submission),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-controller-down-at-start",
        fault="slurmctld down, back after 15 s",
        moment="the driver begins",
        strike=of_slurm(slurm_faults.controller_down_at_the_start),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-accounting-gone",
        fault="slurmdbd down",
        moment="from submission to end",
        strike=of_slurm(slurm_faults.accounting_gone),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-requeue",
        fault="scontrol requeue",
        moment="the sweep",
        strike=of_slurm(slurm_faults.requeue_in_the_sweep),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-preempted",
        fault="preempted by a job of a higher partition",
        moment="the sweep",
        strike=of_slurm(slurm_faults.preempted_in_the_sweep),
        status="completed",
        says=("2 attempt(s)",),
    ),
    Row(
        name="slurm-cancel-resume",
        fault="scancel, then `python -m jobs resume`",
        moment="the sweep",
        strike=of_slurm(slurm_faults.cancel_and_resume),
        status="completed",
        says=("attempt(s)",),
    ),
    Row(
        name="slurm-scancel-start",
        fault="scancel",
        moment="workers start",
        strike=scancel_in("start", "+engine.options.start-s=6"),
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
    ),
    Row(
        name="slurm-scancel-preflight",
        fault="scancel",
        moment="preflight",
        strike=scancel_in("preflight"),
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
    ),
    Row(
        name="slurm-scancel-canary",
        fault="scancel",
        moment="canary",
        strike=scancel_in("canary", "canary.enabled=true"),
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
    ),
    Row(
        name="slurm-scancel-point",
        fault="scancel",
        moment="second point",
        strike=in_second_point(scancel),
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
        quick=True,
    ),
    Row(
        name="slurm-scancel-accuracy",
        fault="scancel",
        moment="accuracy",
        strike=scancel_in("accuracy", "accuracy=word_problems", "workload.concurrency=[8]"),
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
    ),
    Row(
        name="slurm-graceful",
        fault="the driver alone is told to end",
        moment="second point",
        strike=graceful,
        status="cancelled",
        says=("SIGTERM", "; 0 of"),
    ),
    Row(
        name="slurm-deaf",
        fault="decode workers that ignore SIGTERM, the driver is told to end",
        moment="second point",
        strike=in_second_point(to_driver, "+engine.options.fail=decode/deaf"),
        status="cancelled",
        says=("SIGTERM",),
    ),
    Row(
        name="slurm-driver-sigkill",
        fault="driver SIGKILL",
        moment="second point",
        strike=driver_killed,
        status="lost",
        says=("Slurm end all steps",),
    ),
    Row(
        name="slurm-time-limit",
        fault="Slurm's time limit",
        moment="the sweep",
        strike=time_limit,
        status="timed_out",
        says=("time limit", "points written so far are kept"),
    ),
    Row(
        name="slurm-no-accounting",
        fault="a cluster that keeps no accounts at all",
        moment="always",
        strike=of_slurm(slurm_faults.no_accounting, without_accounting),
        status="completed",
        says=("1 attempt(s)",),
    ),
)
