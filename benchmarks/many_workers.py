"""72 workers on 18 nodes: start to all ready, tear-down, and what the driver itself costs.

    python benchmarks/many_workers.py                      # process groups on this machine
    python benchmarks/many_workers.py cluster=slurm_ci     # srun steps on the test cluster (up)

Rehearsal workers; the driver, its watching and its tear-down are the real ones. Prints figures.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORDS = (
    *("engine=rehearsal", "topology=dp1_prefill1x1", "topology.share_nodes=false"),
    *("topology.roles.prefill.endpoints=36", "topology.roles.decode.endpoints=36"),
    *("workload=smoke", "workload.concurrency=[64]", "workload.prompts_per_concurrency=5000"),
    *("accuracy=none", "canary.enabled=false", "allow_dirty=true", "wait=false"),
)
WATCH_S = 15.0
"""How long the driver is looked at while all workers serve."""


def main() -> int:
    """Runs once and prints."""
    words = sys.argv[1:] or ["cluster=local"]
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        run = launched(Path(folder), words)
        pid = int(json.loads(wait(run / "allocation.json", 60).read_text())["driver_pid"])
        ready = until(run, 900, event="phase", phase="point c64")
        begun = until(run, 1, event="phase", phase="start")
        before, at = cpu_s(pid), time.monotonic()
        time.sleep(WATCH_S)
        busy = (cpu_s(pid) - before) / (time.monotonic() - at)
        peak, whole = peak_mb(pid), cpu_s(pid)
        os.kill(pid, signal.SIGTERM)
        outcome = json.loads(wait(run / "outcome.json", 60).read_text())
        end = time.monotonic() + 20
        while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < end:
            time.sleep(0.1)
    torn = outcome["teardown"]
    sys.stdout.write(
        f"72 workers on 18 nodes ({words[0]}), {os.cpu_count()} cores\n"
        f"first start to all ready and router: {moment(ready) - moment(begun):.1f} s\n"
        f"driver: {peak:.0f} MB at most, {whole:.1f} s of CPU until then, "
        f"{100 * busy:.1f} % of one core while watching a running point\n"
        f"tear-down: {torn['seconds']:.1f} s for {torn['processes']} processes, "
        f"{torn['killed']} by KILL, {len(torn['survivors'])} survivors\n"
    )
    return 0 if not torn["survivors"] else 1


def launched(folder: Path, words: list[str]) -> Path:
    """The run directory of a started run."""
    # Into a file: the driver keeps what it inherits open until the run ends.
    said, results = folder / "launcher.log", f"cluster.results_dir={folder}/runs"
    with said.open("w") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "launcher", results, *WORDS, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=stream,
            stderr=stream,
            check=False,
        )
    if done.returncode:
        raise SystemExit(said.read_text())
    return next(folder.glob("runs/*"))


def wait(path: Path, within_s: float) -> Path:
    """A file, once it is there."""
    end = time.monotonic() + within_s
    while not path.exists():
        if time.monotonic() > end:
            raise SystemExit(f"{path} is not there after {within_s:.0f} s")
        time.sleep(0.1)
    return path


def until(run: Path, within_s: float, **wanted: Any) -> dict[str, Any]:
    """The first event with these fields."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        path = run / "events.jsonl"
        for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
            if line.endswith("\n") and wanted.items() <= json.loads(line).items():
                found: dict[str, Any] = json.loads(line)
                return found
        if (run / "outcome.json").exists():
            raise SystemExit((run / "outcome.json").read_text())
        time.sleep(0.2)
    raise SystemExit(f"no event {wanted} within {within_s:.0f} s")


def moment(event: dict[str, Any]) -> float:
    """When an event happened, seconds since 1970."""
    return datetime.fromisoformat(str(event["t"])).timestamp()


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """The most memory a process ever held, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


if __name__ == "__main__":
    sys.exit(main())
