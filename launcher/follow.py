"""Stay with a submitted run: its log as it grows, its end, its table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from launcher.steps import Surroundings
from launcher.submit import Submitted

POLL_S = 0.3
LAST_WORD_S = 5.0
LOOK_S = 3.0
"""How often the executor is asked whether the job is over."""


def follow(submitted: Submitted, around: Surroundings, out: TextIO) -> int:
    """Copy the driver's log to `out` until the run has ended, then print its table.

    Ctrl-C ends the run itself, in order; so do SIGTERM and SIGHUP where the run is on this machine,
    while a Slurm job then goes on without its follower. Returns 0 when the run completed and its
    rows are good, 1 otherwise.
    """
    logs = [_Tail(submitted.log), _Tail(submitted.log.with_suffix(".err"))]
    outcome = submitted.run_dir / "outcome.json"
    with _signals_kept() as came:
        if not _stay(submitted, logs, outcome, came, out):
            sys.stderr.write(f"no longer following; job {submitted.job_id} goes on\n")
            return 1
        for log in logs:
            log.copy(out)
        status = _status(outcome)
        if status == "lost":
            sys.stderr.write(
                f"error: job {submitted.job_id} is over and left no outcome.json: its driver never "
                f"began or was killed; see {submitted.log.parent}\n"
            )
        out.flush()
        table = subprocess.run(
            [sys.executable, "-m", "analysis", "table", str(submitted.run_dir)],
            env={**os.environ, **around.env},
            check=False,
        )
    return 0 if status == "completed" and table.returncode == 0 else 1


def _stay(
    submitted: Submitted, logs: list[_Tail], outcome: Path, came: list[int], out: TextIO
) -> bool:
    """Until the run has ended or is lost; False when a signal ended the following alone."""
    asked = False
    look_at = time.monotonic() + LOOK_S
    while not outcome.exists():
        if time.monotonic() > look_at:
            if _lost(submitted, outcome):
                break
            look_at = time.monotonic() + LOOK_S
        for log in logs:
            log.copy(out)
        if came and not asked:
            if _is_slurm(submitted) and signal.SIGINT not in came:
                return False
            asked = _end(submitted)
        time.sleep(POLL_S)
    time.sleep(POLL_S)
    return True


@contextmanager
def _signals_kept() -> Iterator[list[int]]:
    """Signals that ask to stop, noted instead of obeyed; a second Ctrl-C changes nothing."""
    came: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, lambda got, _: came.append(got))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


def _lost(submitted: Submitted, outcome: Path) -> bool:
    """Whether the job is over without a word; the last word may come a moment after the end."""
    if not submitted.ended():
        return False
    deadline = time.monotonic() + LAST_WORD_S
    while time.monotonic() < deadline and not outcome.exists():
        time.sleep(POLL_S)
    return not outcome.exists()


def _is_slurm(submitted: Submitted) -> bool:
    record = json.loads((submitted.run_dir / "submission.json").read_text(encoding="utf-8"))
    return bool(record["executor"] == "slurm")


def _end(submitted: Submitted) -> bool:
    """Ask the driver to end the run in order; False while there is none to ask yet."""
    sys.stderr.write("ending the run ...\n")
    if _is_slurm(submitted):
        asked = subprocess.run(
            ["scancel", "--batch", "--signal=TERM", submitted.job_id], check=False
        )
        return asked.returncode == 0
    pid = _driver_pid(submitted)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True
