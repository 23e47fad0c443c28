"""A signal that reaches the driver before its handlers stand still ends the run in order."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

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
