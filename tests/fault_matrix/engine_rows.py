"""Faults of the real vLLM on CPU: one prefill and one decode over NIXL, behind the real router."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from jobs.process_tree import living
from jobs.store import RunDir
from tests.engine import ENGINE_ENV
from tests.fakes_jobs import wait_for_event
from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.stage import ROOT, Stage

WORDS = (
    *("cluster=local", "topology=dp1_prefill1x1", "model=tiny_qwen3_5", "flags=cpu_hybrid"),
    *("engine=vllm_cpu", "workload=smoke", "workload.concurrency=[1,2]", "accuracy=none"),
    *("workload.prompts_per_concurrency=12", "workload.client=native", "canary.enabled=false"),
    *("cluster.budgets.no_answer_s=15", "allow_dirty=true", "wait=true"),
)


class EngineStage(Stage):
    """A run that the launcher started here; what follows the fault is measured as elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.driver = subprocess.Popen(
            [sys.executable, "-m", "launcher", f"cluster.results_dir={folder}/runs", *WORDS],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ENGINE_ENV": str(ENGINE_ENV)},
            stdout=(folder / "launcher.log").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.struck_at, self.before = 0.0, 0
        deadline = time.monotonic() + 120
        while not (found := list(folder.glob("runs/*/events.jsonl"))):
            assert time.monotonic() < deadline, (folder / "launcher.log").read_text()
            time.sleep(0.2)
        self.run_dir = RunDir(found[0].parent)
        (self.run_dir.path / "driver.log").symlink_to(folder / "launcher.log")

    def ended(self, within_s: float) -> float:
        """When the run's driver was gone: the launcher goes on to its table."""
        pid = json.loads(self.run_dir.allocation.read_text())["driver_pid"]
        deadline = time.monotonic() + within_s
        while pid in living() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert pid not in living(), self.run_dir.events.read_text()[-2000:]
        return min(time.time(), super().ended(within_s))

    def core(self, step: str) -> int:
        """The engine core's pid, a child of the API server that the step is."""
        leader = self.pid(step)
        cores = [
            process.pid
            for process in living().values()
            if process.group == leader
            and b"EngineCore" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        ]
        return cores[0] if cores else leader


def struck(step: str, number: int, *, core: bool = False) -> Callable[[Path], Seen]:
    """A signal to a step, or to its engine core, in the middle of the second point's streams."""

    def strike(folder: Path) -> Seen:
        stage = EngineStage(folder)
        wait_for_event(stage.run_dir, within_s=800, event="phase", phase="point c2")
        until = time.monotonic() + 60
        while not (stage.run_dir.gates / "c2.go").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1.5)
        pid = stage.core(step) if core else stage.pid(step)
        stage.strike()
        if number == signal.SIGSTOP and not core:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
        return stage.seen(120)

    return strike


ROWS = (
    Row(
        name="vllm-decode-sigkill",
        fault="decode's engine core SIGKILL",
        moment="second point, mid-stream",
        strike=struck("decode0", signal.SIGKILL, core=True),
        says=("decode0 (decode) on node", "during point c2"),
        notice_limit_s=15.0,
    ),
    Row(
        name="vllm-prefill-sigstop",
        fault="prefill SIGSTOP (its whole process group)",
        moment="second point",
        strike=struck("prefill0", signal.SIGSTOP),
        says=("prefill0 (prefill) on node", "has not answered for", "is halted (SIGSTOP)"),
        notice_limit_s=25.0,
    ),
    Row(
        name="vllm-router-sigkill",
        fault="router SIGKILL",
        moment="second point",
        strike=struck("router", signal.SIGKILL),
        says=("router (router) on node", "SIGKILL during point c2"),
    ),
)
