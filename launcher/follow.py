"""Stay with a submitted run: its log as it grows, its end, its table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

from launcher.steps import Surroundings
from launcher.submit import Submitted

POLL_S = 0.3


def follow(submitted: Submitted, around: Surroundings, out: TextIO) -> int:
    """Copy the driver's log to `out` until the run has ended, then print its table.

    Ctrl-C ends the run itself, in order. Returns 0 when the run completed and its rows are good,
    1 otherwise.
    """
    logs = [_Tail(submitted.log), _Tail(submitted.log.with_suffix(".err"))]
    outcome = submitted.run_dir / "outcome.json"
    try:
        while not outcome.exists() and not _lost(submitted):
            for log in logs:
                log.copy(out)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        _end(submitted)
        while not outcome.exists() and not _lost(submitted):
            time.sleep(POLL_S)
    time.sleep(POLL_S)
    for log in logs:
        log.copy(out)
    status = _status(outcome)
    out.flush()
    table = subprocess.run(
        [around.python, "-m", "analysis", "table", str(submitted.run_dir)],
        env={**os.environ, **around.env},
        check=False,
    )
    return 0 if status == "completed" and table.returncode == 0 else 1


class _Tail:
    """What was added to a growing file since the last look."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def copy(self, out: TextIO) -> None:
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8", errors="replace") as stream:
            stream.seek(self._position)
            text = stream.read()
            self._position = stream.tell()
        if text:
            out.write(text)
            out.flush()


def _status(outcome: Path) -> str:
    if not outcome.exists():
        return "lost"
    return str(json.loads(outcome.read_text(encoding="utf-8")).get("status"))


def _driver_pid(submitted: Submitted) -> int | None:
    allocation = submitted.run_dir / "allocation.json"
    if not allocation.exists():
        return None
    pid = json.loads(allocation.read_text(encoding="utf-8")).get("driver_pid")
    return int(pid) if pid else None


def _lost(submitted: Submitted) -> bool:
    """Whether a local driver is gone without a word; a Slurm job is asked for by its id."""
    if (submitted.run_dir / "outcome.json").exists():
        return False
    record = json.loads((submitted.run_dir / "submission.json").read_text(encoding="utf-8"))
    if record["executor"] == "slurm":
        return _slurm_lost(submitted.job_id)
    pid = _driver_pid(submitted)
    if pid is None:
        return False
    return not Path(f"/proc/{pid}").exists() and not (submitted.run_dir / "outcome.json").exists()


def _slurm_lost(job_id: str) -> bool:
    """Only a clear terminal answer counts; a controller that does not answer is no answer."""
    asked = subprocess.run(
        ["squeue", "--noheader", "--states=all", "--me", "--format=%A|%T"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if asked.returncode != 0:
        return False
    live = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED")
    states = dict(line.split("|", 1) for line in asked.stdout.split() if "|" in line)
    state = states.get(job_id)
    return state is not None and state not in live


def _end(submitted: Submitted) -> None:
    record = json.loads((submitted.run_dir / "submission.json").read_text(encoding="utf-8"))
    sys.stderr.write("ending the run ...\n")
    if record["executor"] == "slurm":
        subprocess.run(["scancel", "--batch", "--signal=TERM", submitted.job_id], check=False)
        return
    pid = _driver_pid(submitted)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
