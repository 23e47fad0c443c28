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
from dataclasses import dataclass

from launcher.steps import Surroundings
from launcher.submit import Submitted

POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Stayed:
    """How following ended: the run's exit code, whether it is over, whether a signal came."""

    code: int
    over: bool
    interrupted: bool


def follow(submitted: Submitted, around: Surroundings) -> int:
    """Stay with a run to its end and print its table; 0 when it completed and its rows are good."""
    with _signals_kept():  # to the table's end: what is pressed again after the run's is no reason
        stayed = stay_with(submitted, around)
        if not stayed.over:
            return 1
        table = subprocess.run(
            [sys.executable, "-m", "analysis", "table", str(submitted.run_dir)],
            env={**os.environ, **around.env},
            check=False,
            start_new_session=True,
        )
    return 0 if stayed.code == 0 and table.returncode == 0 else 1


def stay_with(submitted: Submitted, around: Surroundings) -> Stayed:
    """Show the driver's log until the run has ended.

    `python -m jobs follow` shows and waits: it knows the run's files and asks Slurm. Ctrl-C ends
    the run itself, in order; so do SIGTERM and SIGHUP where the run is on this machine, while a
    Slurm job then goes on without its follower.
    """
    sys.stdout.flush()
    env = {**os.environ, **around.env}
    run_dir = str(submitted.run_dir)
    with _signals_kept() as came:
        watcher = subprocess.Popen(
            [sys.executable, "-m", "jobs", "follow", run_dir], env=env, start_new_session=True
        )
        try:
            if not _stay(submitted, watcher, came):
                sys.stderr.write(f"no longer following; job {submitted.job_id} goes on\n")
                return Stayed(1, False, True)
        finally:
            if watcher.poll() is None:
                watcher.terminate()
                watcher.wait()
    return Stayed(watcher.returncode, True, bool(came))


def _stay(submitted: Submitted, watcher: subprocess.Popen[bytes], came: list[int]) -> bool:
    """Until the run is over; False when a signal ended the following alone."""
    told = asked = False
    while watcher.poll() is None:
        submitted.collect()
        if came and not asked:
            if _is_slurm(submitted) and signal.SIGINT not in came:
                return False
            if not told:
                sys.stderr.write("ending the run ...\n")
            told, asked = True, _end(submitted)
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


def _driver_pid(submitted: Submitted) -> int | None:
    allocation = submitted.run_dir / "allocation.json"
    if not allocation.exists():
        return None
    pid = json.loads(allocation.read_text(encoding="utf-8")).get("driver_pid")
    return int(pid) if pid else None


def _is_slurm(submitted: Submitted) -> bool:
    record = json.loads((submitted.run_dir / "submission.json").read_text(encoding="utf-8"))
    return bool(record["executor"] == "slurm")


def _end(submitted: Submitted) -> bool:
    """Ask the driver to end the run in order; False while there is none to ask yet."""
    if _is_slurm(submitted):
        # A waiting job has no driver to ask: it is taken back. Ids only, never names.
        waiting = ["scancel", "--quiet", "--state=PENDING", submitted.job_id]
        running = ["scancel", "--quiet", "--batch", "--signal=TERM", submitted.job_id]
        codes = [subprocess.run(line, check=False).returncode for line in (waiting, running)]
        return not any(codes)
    pid = _driver_pid(submitted)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True
