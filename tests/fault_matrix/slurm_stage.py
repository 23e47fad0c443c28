"""A run on the test cluster on which faults are tried: submitted by the launcher, looked at on
every node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.processes import Started, all_pids, environment, observe
from tests.fault_matrix.row import Seen
from tests.fault_matrix.stage import ROOT, SIGNS, seconds

BASE = (
    *("cluster=slurm_ci", "engine=rehearsal", "workload=smoke", "accuracy=none"),
    *("topology=dep8_prefill4x2", "topology.roles.decode.load_balancing=internal"),
    *("workload.prompts_per_concurrency=50", "allow_dirty=true"),
    *("+engine.options.decode-tps=100", "cluster.budgets.no_answer_s=6", "canary.enabled=false"),
)
TWO_POINTS = "workload.concurrency=[1,64]"
"""Decode over two nodes, the second headless; two points of some 20 s each."""


@dataclass
class SlurmStage:
    """One submitted run."""

    cluster: Cluster
    run: Path
    job: str
    struck_at: float = 0.0
    before: int = 0
    seen_pids: list[Started] = field(default_factory=list)

    @property
    def outcome(self) -> Path:
        """outcome.json."""
        return self.run / "outcome.json"

    def events(self) -> list[dict[str, Any]]:
        """All events so far; a line that is being written is left out."""
        path = self.run / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_for(self, within_s: float = 150.0, **wanted: Any) -> None:
        """Until an event with these fields is there."""
        self.until(
            lambda: any(wanted.items() <= it.items() for it in self.events()), within_s, str(wanted)
        )

    def until(self, condition: Any, within_s: float, what: str) -> None:
        """Until `condition`, or TimeoutError with the driver's last words."""
        end = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end:
                said = [it["text"] for it in self.events()][-5:]
                raise TimeoutError(f"not within {within_s:.0f} s: {what}; last: {said}")
            time.sleep(0.1)

    def second_point(self) -> None:
        """Until the second point's requests are under way."""
        self.wait_for(event="phase", phase="point c64")
        self.until((self.run / "gates" / "c64.go").exists, 30, "c64 begins")
        time.sleep(1.0)

    def processes(self) -> list[Started]:
        """The job's processes on all nodes, slurmstepd left out: by Slurm's own variable."""
        found = []
        for pid in all_pids():
            if environment(pid).get("SLURM_JOB_ID") == self.job and (seen := observe("task", pid)):
                found.append(seen)
        return found

    def pid_of(self, *words: str) -> int:
        """The worker (not its srun) whose command line has all of these words."""
        for process in self.processes():
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
            if "srun" not in line[0] and "jobs.rehearsal" in line and set(words) <= set(line):
                return process.pid
        raise AssertionError(f"no process with {words}")

    def strike(self) -> None:
        """The fault happens now."""
        self.seen_pids = self.processes()
        self.struck_at = time.time()
        self.before = len(list((self.run / "points").glob("*.json")))

    def seen(self, within_s: float = 120.0) -> Seen:
        """What the run did about it."""
        self.until(self.outcome.exists, within_s, "outcome.json")
        outcome = json.loads(self.outcome.read_text())
        told = self.events()
        signs = [seconds(it) for it in told if it["event"] in SIGNS]
        torn = outcome["teardown"]
        ended = self.outcome.stat().st_mtime
        began = next((seconds(it) for it in told if it.get("phase") == "teardown"), None)
        return Seen(
            said=outcome["cause"],
            status=outcome["status"],
            notice_s=round(max(0.0, min(signs) - self.struck_at), 2) if signs else None,
            clean_s=round(ended - began, 2) if began and signs else None,
            survivors=[*torn["survivors"], *self.left()],
            points_kept=len(list((self.run / "points").glob("*.json"))),
            points_before=self.before,
        )

    def left(self, within_s: float = 3.0) -> list[str]:
        """The job's processes once its driver had a moment to go, seen on the nodes."""
        end = time.monotonic() + within_s
        while time.monotonic() < end and self._living():
            time.sleep(0.1)
        return [f"pid {process.pid}" for process in self._living()]

    def _living(self) -> list[Started]:
        return [it for it in {*self.seen_pids, *self.processes()} if it.is_alive()]

    def kill(self, number: signal.Signals, *words: str) -> None:
        """A signal to a worker on its node, as the fault."""
        pid = self.pid_of(*words)
        self.strike()
        os.kill(pid, number)

    def name_of(self, index: int) -> str:
        """The name of a node of the run."""
        nodes = json.loads((self.run / "allocation.json").read_text())["nodes"]
        return str(nodes[index]["name"])


def launch(cluster: Cluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m launcher` against the test cluster; `words` replace usual ones of their key."""
    given = {word.partition("=")[0] for word in words}
    usual = [word for word in (*BASE, TWO_POINTS) if word.partition("=")[0] not in given]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "launcher",
            f"cluster.results_dir={folder}/runs",
            *usual,
            *words,
        ],
        cwd=folder,
        env={**cluster.env(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def submitted(cluster: Cluster, folder: Path, *words: str) -> SlurmStage:
    """A run that Slurm took."""
    done = launch(cluster, folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("run directory")]
    run = Path(lines[0].split()[-1])
    job = json.loads((run / "submission.json").read_text())["job_id"]
    return SlurmStage(cluster, run, str(job))
