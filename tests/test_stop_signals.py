"""A signal that reaches the driver before its handlers stand still ends the run in order."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.batch import batch_command
from tests.compose import AROUND
from tests.fakes_jobs import PYTHON, REPO, left_over, make_run, outcome, pair_run

STRUCK = """
import os, runpy, sys

class Striker:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), NUMBER)

sys.meta_path.insert(0, Striker())
runpy.run_module("jobs", run_name="__main__", alter_sys=True)
"""
"""A driver to which a signal comes while it reads one of its modules."""


@pytest.mark.parametrize(
    ("module", "number"),
    [("jobs.attempts", signal.SIGTERM), ("jobs.waiting", signal.SIGTERM)],
    ids=["the first", "the last"],
)
def test_a_signal_while_the_driver_reads_its_modules_leaves_an_outcome(
    tmp_path: Path, module: str, number: signal.Signals
) -> None:
    run_dir = make_run(tmp_path / "run", pair_run())
    script = f"MODULE, NUMBER = {module!r}, {int(number)}\n{STRUCK}"
    done = subprocess.run(
        [PYTHON, "-c", script, "run", str(run_dir.path)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 1, done.stderr
    assert outcome(run_dir)["status"] == "cancelled"
    assert number.name in outcome(run_dir)["cause"]
    assert left_over(run_dir) == []


def test_a_signal_before_the_interpreter_has_begun_leaves_an_outcome(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run", pair_run())
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nkill -TERM $$\nexec {PYTHON} "$@"\n')
    python.chmod(0o755)
    around = replace(AROUND, python=str(python), env={"PYTHONPATH": str(REPO)})
    line = batch_command(str(run_dir.path), around, None)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1, done.stderr
    assert outcome(run_dir)["status"] == "cancelled"
    assert left_over(run_dir) == []


def test_an_env_that_cannot_hold_signals_still_starts_the_driver(tmp_path: Path) -> None:
    """coreutils before 8.31 knows no --block-signal."""
    env = tmp_path / "env"
    env.write_text('#!/bin/sh\ncase $1 in --*) exit 125;; esac\nexec /usr/bin/env "$@"\n')
    env.chmod(0o755)
    line = batch_command("/RUN", replace(AROUND, python="echo", env={}), None)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["/bin/sh", "-c", line], env={"PATH": path}, capture_output=True)
    assert done.stdout == b"-P -m jobs run /RUN\n"
