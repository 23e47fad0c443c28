"""Faults of a local run: rehearsal workers behind the real router."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes_jobs import events, left_over, pair_run, wait_for_event
from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.stage import NO_ANSWER_S, Stage, two_points

SECOND = "point c8"
HANG_LIMIT_S = NO_ANSWER_S + 6.0
SLOW_END = ("--decode-tps", "50")


def in_second_point(step: str, number: int, **options: Any) -> Callable[[Path], Seen]:
    """A signal to one step while the second point runs."""

    def strike(folder: Path) -> Seen:
        stage = Stage(folder, two_points(**options))
        stage.reach(SECOND)
        stage.kill(step, number)
        return stage.seen()

    return strike


def spread_decode(document: dict[str, Any]) -> dict[str, Any]:
    """The decode endpoint as two processes: a leader with HTTP, a headless one."""
    plan = document["plan"]
    leader = next(worker for worker in plan["workers"] if worker["role"] == "decode")
    rpc = ["--rpc-address", "{node1.address}", "--rpc-port", str(leader["ports"]["nixl"][0] + 40)]
    nixl = leader["ports"]["nixl"][0]
    follower = {**leader, "name": "decode0-n1", "log": "decode0-n1.log", "url": None}
    follower |= {"leader": False, "node_rank": 1, "dp_ranks": [1]}
    for worker, more in ((leader, ["0"]), (follower, ["1", "--headless"])):
        line = [*worker["command"], *rpc, "--dp-local", "1", "--dp-start", *more]
        worker["command"] = worker["argv"] = line
    leader["dp_ranks"] = [0]
    for worker, port in ((leader, nixl), (follower, nixl + 1)):
        worker["ports"] = {**worker["ports"], "nixl": [port]}
        worker["listeners"] = [{"what": "nixl side channel", "port": port}]
    leader["served_ranks"] = [0, 1]
    plan["workers"].append(follower)
    return document


def of_spread_decode(step: str) -> Callable[[Path], Seen]:
    def strike(folder: Path) -> Seen:
        stage = Stage(folder, spread_decode(two_points(decode_dp=2)))
        stage.reach(SECOND)
        stage.kill(step, signal.SIGKILL)
        return stage.seen()

    return strike


def exits_with_1(folder: Path) -> Seen:
    stage = Stage(folder, two_points(prefill_more=("--fail", "exit:1@12")))
    pid = stage.pid("prefill0")
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        stage.strike()
        time.sleep(0.02)
    return stage.seen()


def never_ready(fault: str, phase: str) -> Callable[[Path], Seen]:
    def strike(folder: Path) -> Seen:
        document = pair_run(points=(1,), decode_more=("--fail", fault))
        document["plan"]["budgets"]["stall"] = {f"{phase}_s": NO_ANSWER_S}
        stage = Stage(folder, document)
        wait_for_event(stage.run_dir, event="start_up", step="decode0", start_up=phase)
        stage.strike()
        return stage.seen()

    return strike


def refuses(folder: Path) -> Seen:
    stage = Stage(folder, two_points(prefill_more=("--fail", "refuse@15")))
    log = stage.run_dir.log("prefill0")
    while "not listening any more" not in (log.read_text() if log.exists() else ""):
        time.sleep(0.05)
    stage.strike()
    return stage.seen()


def frozen(folder: Path) -> Seen:
    stage = Stage(folder, two_points(decode_more=(*SLOW_END, "--fail", "freeze@40")))
    stage.reach(SECOND)
    page_moves = stage.run_dir.log("decode0")
    assert page_moves.exists()
    stage.strike()
    return stage.seen()


def stranger_on_port(folder: Path) -> Seen:
    document = pair_run(points=(1,))
    port = document["plan"]["workers"][0]["ports"]["http"]
    with socket.create_server(("0.0.0.0", port)):
        return Stage(folder, document).seen()


def canary_fails(folder: Path) -> Seen:
    return Stage(folder, pair_run(points=(1,), decode_more=("--fail", "kvfail"))).seen()


def some_fail(folder: Path) -> Seen:
    document = pair_run(points=(1, 2), decode_more=("--fail", "http500@40-41"))
    stage = Stage(folder, document)
    seen = stage.seen()
    told = [event["text"] for event in events(stage.run_dir) if event["event"] == "point"]
    return replace(seen, said="; ".join(told))


def all_fail(folder: Path) -> Seen:
    document = two_points(decode_more=(*SLOW_END, "--fail", "http500@9"))
    stage = Stage(folder, document)
    stage.reach(SECOND)
    stage.strike()
    return stage.seen()


def driver_killed(folder: Path) -> Seen:
    stage = Stage(folder, two_points())
    stage.reach(SECOND)
    stage.strike()
    stage.driver.kill()
    stage.driver.wait()
    begun = time.monotonic()
    while left_over(stage.run_dir) and time.monotonic() - begun < 60:
        time.sleep(0.1)
    return Seen(
        said="no outcome.json: the guard stopped what the driver left",
        status="lost" if not stage.run_dir.outcome.exists() else "?",
        notice_s=None,
        clean_s=round(time.monotonic() - begun, 2),
        survivors=left_over(stage.run_dir),
        points_kept=len(list(stage.run_dir.points.glob("*.json"))),
        points_before=stage.before,
    )


def signals_again_and_again(folder: Path) -> Seen:
    stage = Stage(folder, two_points())
    stage.reach(SECOND)
    stage.strike()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ProcessLookupError):
            os.kill(stage.driver.pid, number)
        time.sleep(0.2)
    return stage.seen()


def deaf_workers(folder: Path) -> Seen:
    document = two_points(decode_more=(*SLOW_END, "--fail", "deaf"))
    one = document["plan"]["workers"][1]
    for number in range(1, 8):
        port = one["ports"]["http"] + number
        more = {**one, "name": f"decode{number}", "log": f"decode{number}.log", "endpoint": number}
        more |= {"url": f"http://{{node1.address}}:{port}", "listeners": [], "ports": {}}
        line = list(one["command"])
        line[line.index("--port") + 1] = str(port)
        line[line.index("--nixl-base") + 1] = str(one["ports"]["nixl"][0] + 2 * number)
        document["plan"]["workers"].append({**more, "command": line, "argv": line})
    stage = Stage(folder, document)
    stage.reach(SECOND)
    stage.strike()
    stage.driver.terminate()
    return stage.seen()


def run_dir_deleted(folder: Path) -> Seen:
    stage = Stage(folder, two_points())
    stage.reach(SECOND)
    pids = [stage.pid(name) for name in ("prefill0", "decode0", "router")]
    stage.strike()
    stage.run_dir.path.rename(folder / "gone")
    stage.driver.wait(timeout=120)
    took = time.time() - stage.struck_at
    said = (folder / "gone" / "driver.log").read_text()
    ending = next(line for line in said.splitlines() if "was removed or moved" in line)
    return Seen(
        said=ending,
        status="failed" if stage.driver.returncode == 1 else "?",
        notice_s=None,
        clean_s=round(took, 2),
        survivors=[str(pid) for pid in pids if Path(f"/proc/{pid}/exe").exists()],
        points_kept=len(list((folder / "gone" / "points").glob("*.json"))),
        points_before=stage.before,
    )


def log_flood(folder: Path) -> Seen:
    document = two_points(decode_more=("--fail", "flood:100"))
    document["plan"]["points"].pop()
    document["plan"]["log_limit_mb"] = 6.0
    stage = Stage(folder, document)
    seen = stage.seen()
    logs = sum(path.stat().st_size for path in stage.run_dir.logs.iterdir()) / 1e6
    cut = [event["text"] for event in events(stage.run_dir) if event["event"] == "log_cut"]
    assert logs < 14, f"{logs} MB of logs"
    return Seen(
        said=f"{cut[0]} (logs at the end: {logs:.1f} MB)",
        status=seen.status,
        notice_s=None,
        clean_s=None,
        survivors=seen.survivors,
        points_kept=seen.points_kept,
    )


def two_runs(folder: Path) -> Seen:
    first = Stage(folder / "a", {**two_points(), "run_id": "r-first"})
    other = two_points()
    other["plan"]["points"].pop()
    second = Stage(folder / "b", {**other, "run_id": "r-second"})
    first.reach(SECOND)
    first.kill("decode0", signal.SIGKILL)
    lost, kept = first.seen(), second.seen(120)
    assert lost.status == "failed", lost
    return Seen(
        said=f"struck: {lost.said}",
        status=kept.status,
        notice_s=lost.notice_s,
        clean_s=lost.clean_s,
        survivors=[*lost.survivors, *kept.survivors],
        points_kept=lost.points_kept + kept.points_kept,
        points_before=1 + lost.points_before,
    )


ROWS = (
    Row(
        name="prefill-exit-0",
        fault="prefill worker ends with 0",
        moment="second point",
        strike=in_second_point("prefill0", signal.SIGTERM),
        says=("prefill0 (prefill) on node", "rc 0 during point c8", "what to try"),
        quick=True,
    ),
    Row(
        name="prefill-exit-1",
        fault="prefill worker ends with 1",
        moment="12 s after its start",
        strike=exits_with_1,
        says=("prefill0 (prefill) on node", "rc 1 during", "--fail asked for it"),
    ),
    Row(
        name="prefill-sigkill",
        fault="prefill worker SIGKILL",
        moment="second point",
        strike=in_second_point("prefill0", signal.SIGKILL),
        says=("prefill0 (prefill) on node", "SIGKILL during point c8", "out-of-memory"),
    ),
    Row(
        name="prefill-sigstop",
        fault="prefill worker SIGSTOP",
        moment="second point",
        strike=in_second_point("prefill0", signal.SIGSTOP),
        says=("prefill0 (prefill) on node", "has not answered for", "is halted (SIGSTOP)"),
        notice_limit_s=HANG_LIMIT_S,
        quick=True,
    ),
    Row(
        name="decode-leader-dies",
        fault="leader of a decode endpoint of two processes SIGKILL",
        moment="second point",
        strike=of_spread_decode("decode0"),
        says=("decode0 (decode) on node", "SIGKILL during point c8"),
    ),
    Row(
        name="decode-headless-dies",
        fault="headless process of that endpoint SIGKILL",
        moment="second point",
        strike=of_spread_decode("decode0-n1"),
        says=("decode0-n1 (decode) on node", "SIGKILL during point c8"),
        quick=True,
    ),
    Row(
        name="router-dies",
        fault="router SIGKILL",
        moment="second point",
        strike=in_second_point("router", signal.SIGKILL),
        says=("router (router) on node", "SIGKILL during point c8"),
    ),
    Row(
        name="router-hangs",
        fault="router SIGSTOP",
        moment="second point",
        strike=in_second_point("router", signal.SIGSTOP),
        says=("router (router) on node", "has not answered for", "is halted (SIGSTOP)"),
        notice_limit_s=HANG_LIMIT_S,
    ),
    Row(
        name="never-ready",
        fault="decode worker stops loading weights",
        moment="start",
        strike=never_ready("stuck", "weights"),
        says=("decode0 (decode) on node", "no progress for", "at weights", "last said"),
        notice_limit_s=HANG_LIMIT_S,
        quick=True,
    ),
    Row(
        name="side-channel-closed",
        fault="decode worker's NIXL side channel never listens",
        moment="start",
        strike=never_ready("noside", "ready"),
        says=("decode0 (decode) on node", "side channel", "does not listen"),
        notice_limit_s=HANG_LIMIT_S,
    ),
    Row(
        name="ready-then-refuses",
        fault="prefill worker closes its port and lives on",
        moment="15 s after its start",
        strike=refuses,
        says=("prefill0 (prefill) on node", "nothing listens at its port any more"),
        notice_limit_s=HANG_LIMIT_S,
    ),
    Row(
        name="engine-frozen",
        fault="decode engine makes no token, all its pages answer",
        moment="second point",
        strike=frozen,
        says=("decode0 (decode) on node", "has made no token for", "requests running"),
        notice_limit_s=HANG_LIMIT_S + 4.0,
    ),
    Row(
        name="port-taken",
        fault="a stranger holds prefill's port",
        moment="preflight",
        strike=stranger_on_port,
        says=("preflight", "port"),
        notice_limit_s=30.0,
    ),
    Row(
        name="canary-fails",
        fault="KV does not cross (every transfer fails)",
        moment="canary",
        strike=canary_fails,
        says=("canary: prefill0 -> decode0", "HTTP 500"),
        notice_limit_s=60.0,
    ),
    Row(
        name="some-requests-fail",
        fault="HTTP 500 for two requests",
        moment="a point",
        strike=some_fail,
        status="completed",
        says=("2 FAILED: {'http_500': 2}",),
    ),
    Row(
        name="all-requests-fail",
        fault="HTTP 500 for every request",
        moment="second point",
        strike=all_fail,
        says=("all 4000 requests of c8 failed", "http_500"),
        notice_limit_s=60.0,
    ),
    Row(
        name="client-dies",
        fault="benchmark client SIGKILL",
        moment="second point",
        strike=in_second_point("client-c8", signal.SIGKILL),
        says=("client-c8 (client) on node", "SIGKILL"),
    ),
    Row(
        name="driver-sigkill",
        fault="driver SIGKILL",
        moment="second point",
        strike=driver_killed,
        status="lost",
        says=("guard",),
        quick=True,
    ),
    Row(
        name="signals-again",
        fault="SIGTERM, SIGINT, SIGTERM, SIGINT to the driver",
        moment="second point",
        strike=signals_again_and_again,
        status="cancelled",
        says=("cancelled: the driver received SIGTERM",),
    ),
    Row(
        name="deaf-x8",
        fault="8 workers that ignore SIGTERM, driver told to end",
        moment="second point",
        strike=deaf_workers,
        status="cancelled",
        says=("SIGTERM",),
    ),
    Row(
        name="run-dir-deleted",
        fault="run directory moved away",
        moment="second point",
        strike=run_dir_deleted,
        says=("was removed or moved while the run used it",),
        quick=True,
    ),
    Row(
        name="log-flood",
        fault="a worker writes 100 MB/min to its log",
        moment="whole run",
        strike=log_flood,
        status="completed",
        says=("cluster.log_limit_mb = 6", "the beginning is kept"),
    ),
    Row(
        name="two-runs",
        fault="one of two runs on one node loses its decode worker",
        moment="second point",
        strike=two_runs,
        status="completed",
        says=("struck: decode0",),
    ),
)
