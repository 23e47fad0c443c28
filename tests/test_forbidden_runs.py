"""Runs of which this user may not read all: one clear line, never a traceback or a false end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.store import RunDir
from tests.fakes_jobs import REPO
from tests.fakes_runs import Ending, cancel, end, here, make_dir, submitted

pytestmark = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads everything, and there is no setpriv to give that up (util-linux)",
)
AS_OTHERS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
"""Root without its capabilities is held to a file's mode, as everybody is."""


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AS_OTHERS, sys.executable, "-m", "jobs", *words],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A run directory that may not be entered."""
    run = make_dir(tmp_path, "aaaaaa")
    run.path.chmod(0)
    yield run.path
    run.path.chmod(0o700)


@pytest.mark.parametrize("command", ["list", "show", "cancel", "resume"])
def test_a_closed_directory_is_one_clear_line_and_2(closed: Path, command: str) -> None:
    done = asked(command, str(closed))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_whose_records_may_not_be_read_is_not_called_over(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    end(run, "completed")
    run.outcome.chmod(0)
    shown = asked("show", str(run.path))
    assert "state       unknown\n" in shown.stdout
    done = asked("cancel", str(run.path))
    assert done.returncode == 1
    assert "has ended already" not in done.stdout
    again = asked("resume", str(run.path))
    assert again.returncode == 2
    assert "outcome.json may not be read: ask its owner" in again.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_run_is_left_to_its_owner(tmp_path: Path) -> None:
    run: RunDir = submitted(make_dir(tmp_path, "aaaaaa"))
    os.chown(run.path, 54321, 54321)
    slurm = Ending("RUNNING", "CANCELLED")
    code, said, _ = cancel([run], slurm)
    assert (code, slurm.cancelled) == (1, [])
    assert "it is user 54321's run: ask them to cancel it" in said


@pytest.mark.parametrize("name", ["~nobody-of-this-name/run", "a" * 300, "b" * 300 + "/c"])
def test_a_name_that_no_path_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    for words in (["show", name], ["list", name], ["cancel", "--sweep", name]):
        done = here(*words, "--results", tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
