"""Staying with a local run: Ctrl-C ends it in order, a driver that never began is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launching import ROOT
from tests.patience import wait_until

WORDS = ("cluster=local", "engine=rehearsal", "topology=dp1_prefill1x1", "workload=smoke")


def start(tmp_path: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """The launcher as a process group of its own, as a terminal would have it."""
    return subprocess.Popen(
        [sys.executable, "-m", "launcher", *WORDS, "accuracy=none", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGINT,), (signal.SIGINT,) * 3, (signal.SIGTERM,), (signal.SIGTERM, signal.SIGHUP)],
)
def test_a_signal_to_who_waits_ends_the_run_in_order_however_often_it_comes(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    launcher = start(tmp_path, "workload.prompts_per_concurrency=200000")
    wait_until(lambda: list(tmp_path.glob("runs/*/canary.json")), "the canary")
    for number in signals:
        if number == signal.SIGINT:
            os.killpg(launcher.pid, number)
        else:
            os.kill(launcher.pid, number)
        time.sleep(0.4)
    out, err = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    (outcome,) = tmp_path.glob("runs/*/outcome.json")
    ended = json.loads(outcome.read_text())
    assert ended["status"] == "cancelled"
    assert ended["teardown"]["survivors"] == []
    assert "cancelled" in out
    assert "Traceback" not in err


def test_ctrl_c_after_the_end_of_the_run_does_not_take_the_table(tmp_path: Path) -> None:
    launcher = start(tmp_path, "workload.prompts_per_concurrency=200000")
    wait_until(lambda: list(tmp_path.glob("runs/*/canary.json")), "the canary")
    os.killpg(launcher.pid, signal.SIGINT)
    wait_until(lambda: list(tmp_path.glob("runs/*/outcome.json")), "the end of the run")
    while launcher.poll() is None and not table_of(launcher.pid):
        time.sleep(0.02)
    os.killpg(launcher.pid, signal.SIGINT)
    out, err = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    assert "cancelled, " in out
    assert "Traceback" not in err


def table_of(pid: int) -> bool:
    """Whether a process has begun the table."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        lines = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    except OSError:  # one ended while it was looked at
        return False
    return any(b"analysis\0table" in line for line in lines)


def test_a_driver_that_never_began_is_told_and_not_waited_for(tmp_path: Path) -> None:
    launcher = start(tmp_path, PATH="/nonexistent")
    _, err = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    assert "no driver works on it; it ended before its driver began: nothing was started" in err
