"""A row struck in a process of its own, within its time, and nothing left of it afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import Started, all_pids, environment, kill, observe, wait_until
from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.stage import ROOT

MARK = "FAULT_MATRIX_FOLDER"
"""In the environment of a row's process and of all that it starts."""
GOING_S = 10.0
"""Until what a row started has ended by itself."""
ENOUGH = threading.Event()
"""Set when the command itself is told to end."""


@dataclass(frozen=True, kw_only=True)
class Struck:
    """What came of one row."""

    seen: Seen | None
    """None: the row could not be run to its end."""
    problems: tuple[str, ...]
    took_s: float
    load: float
    """The machine's load average (1 min) when the row began."""


def strike(row: Row, limit_s: float, nice: int = 0) -> Struck:
    """One row, from its start to nothing of it left."""
    begun, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="matrix-", ignore_cleanup_errors=True) as folder:
        seen, problem = _in_a_process(row.name, Path(folder), limit_s, nice)
        left = _sweep(folder)
        _unmount(folder)
    problems = [problem] if seen is None else row.problems(seen)
    if left and seen is not None:
        problems.append(f"left after the row: {'; '.join(left)}")
    took = round(time.monotonic() - begun, 1)
    return Struck(seen=seen, problems=tuple(problems), took_s=took, load=round(load, 1))


def _in_a_process(name: str, folder: Path, limit_s: float, nice: int) -> tuple[Seen | None, str]:
    """What the row saw, or why there is nothing to see."""
    result, said = folder / "seen.json", folder / "said.log"
    words = [sys.executable, "-m", "tests.fault_matrix.strike", name, str(folder), str(result)]
    with said.open("w") as stream:
        child = subprocess.Popen(
            ["nice", "-n", str(nice), *words],
            cwd=ROOT,
            env={**os.environ, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        ended = wait_until(lambda: child.poll() is not None or ENOUGH.is_set(), limit_s, 0.2)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    last = said.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing said"]
    if not ended:
        return None, f"could not be run: not ended within {limit_s:.0f} s; last line: {last[0]}"
    if child.returncode or not result.exists():
        return None, f"could not be run: {last[0][:2000]}"
    return Seen(**json.loads(result.read_text())), ""


def _sweep(folder: str) -> list[str]:
    """Ends what the row started and what did not go by itself; one line for each."""
    wait_until(lambda: not _marked(folder), GOING_S, 0.2)
    left = _marked(folder)
    told = [f"{process.pid} {_line(process.pid)}" for process in left]
    kill(left)
    return told


def _marked(folder: str) -> list[Started]:
    pids = [pid for pid in all_pids() if environment(pid).get(MARK) == folder]
    return [seen for pid in pids if (seen := observe("of a row", pid))]


def _line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return "gone"


def _unmount(folder: str) -> None:
    """Disks that a row was ended over, the last mounted first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([it for it in points if it.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", point], check=False)
