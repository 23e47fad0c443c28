"""Many run directories are read by several processes: the same comes out as of one."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from analysis import load as loading
from analysis.__main__ import main
from analysis.load import Loaded, load
from analysis.one_run import OneRun, read_run
from tests.analysis_runs import completed_run
from tests.test_broken_runs import KINDS

HERE = os.getpid()


def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ALONE", 1)
    monkeypatch.setattr(loading, "AT_ONCE", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def many(home: Path) -> Path:
    """Whole and broken runs of every kind, and one that is there twice."""
    for number in range(3):
        completed_run(home / f"good{number}", f"good{number}")
    for kind, (breaks, _) in KINDS.items():
        breaks(completed_run(home / kind, kind))
    shutil.copytree(home / "good1", home / "good1-again")
    return home


def told(loaded: Loaded) -> tuple[object, ...]:
    return loaded.runs, loaded.warnings, loaded.lost_records


def reads_elsewhere(folder: Path) -> OneRun:
    assert os.getpid() != HERE
    return read_run(folder)


def test_several_processes_tell_what_one_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = many(tmp_path)
    alone = told(load([home]))
    forked(monkeypatch)
    monkeypatch.setattr(loading, "read_run", reads_elsewhere)
    assert told(load([home])) == alone
    assert sum("left out, run 'good1'" in warning for warning in alone[1]) == 1  # type: ignore[attr-defined]


def dies(folder: Path) -> OneRun:
    """Read here, and killed anywhere else."""
    if os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_run(folder)


def test_what_a_killed_reader_leaves_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = many(tmp_path)
    alone = told(load([home]))
    forked(monkeypatch)
    monkeypatch.setattr(loading, "read_run", dies)
    assert told(load([home])) == alone


def test_ctrl_c_ends_a_command_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(folder: Path) -> OneRun:
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "read_run", pressed)
    assert main(["table", str(completed_run(tmp_path / "good", "good"))]) == 130
    assert capsys.readouterr().out == ""
