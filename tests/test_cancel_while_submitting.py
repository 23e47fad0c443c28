"""Cancelling what is still being submitted: no job comes after `cancel` said that all are over."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.runs.cancelling import GIVE_UP_S, Cancelling
from jobs.runs.facts import read_facts
from jobs.runs.finding import SWEEP_CANCELLED, SWEEP_FILE, SWEEP_LOCK, NoSuchRunError
from jobs.runs.standing import BulkStatus, stand
from jobs.runs.sweep_cancelling import cancel_sweeps
from jobs.store import RunDir
from launcher.sweep.handing import CANCELLED, LOCK, Submission
from tests.fakes_runs import EMPTY, Slurm, booked, listed, make_dir, submitted


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As a launcher that is at work holds it."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def cancelled(run: RunDir, slurm: Slurm, then: dict[float, Any]) -> tuple[int, str]:
    """The exit status and what was said; `then` happens at its second."""
    said: list[str] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        for at in [at for at in then if at <= now[0]]:
            then.pop(at)()

    code = Cancelling([run], said.append, slurm, sleep, lambda: now[0]).until_ended()
    return code, "\n".join(said)


def test_a_run_that_is_being_submitted_is_neither_lost_nor_over(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    with locked(run.submitting):
        standing = stand(read_facts(run), BulkStatus(Slurm(EMPTY)))
        assert (standing.word, standing.text, standing.over) == ("queued", "being submitted", False)
    standing = stand(read_facts(run), BulkStatus(Slurm(EMPTY)))
    assert (standing.word, standing.over) == ("lost", True)
    assert "before it was submitted" in standing.remark


def test_cancel_waits_for_the_job_of_a_run_that_is_being_submitted(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    slurm = Slurm(listed("PENDING"))

    def gone() -> None:
        slurm.squeue, slurm.sacct = EMPTY, booked("CANCELLED by 0")

    with locked(run.submitting):
        code, said = cancelled(run, slurm, {5.0: lambda: submitted(run), 10.0: gone})
    assert code == 0, said
    assert slurm.cancelled == [["--state=PENDING", "5001"]]
    assert "cancelled before it began" in said


def test_cancel_does_not_call_a_run_over_that_is_still_being_submitted(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    with locked(run.submitting):
        code, said = cancelled(run, Slurm(EMPTY), {GIVE_UP_S + 100: lambda: None})
    assert code == 1
    assert "NOT cancelled: its launcher is still submitting it" in said


def sweep(tmp_path: Path, *ends: str) -> Path:
    """A sweep's directory with runs."""
    home = tmp_path / "sweep"
    home.mkdir()
    (home / SWEEP_FILE).write_text("{}")
    for place in ends:
        make_dir(home, place)
    return home


def test_a_sweep_is_cancelled_with_the_runs_that_its_launcher_was_about_to_start(
    tmp_path: Path,
) -> None:
    home, ended, said = sweep(tmp_path), list[str](), list[str]()
    launcher = ExitStack()
    launcher.enter_context(locked(home / SWEEP_LOCK))
    to_come = ["aaaaaa", "bbbbbb"]

    def sleep(_: float) -> None:
        if to_come:
            make_dir(home, to_come.pop(0))
        else:
            launcher.close()

    def cancel(runs: Sequence[RunDir]) -> int:
        ended.extend(run.path.name[-6:] for run in runs)
        return 0

    code = cancel_sweeps([home], cancel, said.append, sleep, lambda: 0.0)
    assert (code, ended) == (0, ["aaaaaa", "bbbbbb"])
    assert (home / SWEEP_CANCELLED).exists()
    assert said == ["sweep: its launcher starts no further runs"]


def test_a_launcher_that_does_not_end_is_told_and_not_waited_for_for_ever(tmp_path: Path) -> None:
    home, said, now = sweep(tmp_path, "aaaaaa"), list[str](), [0.0]

    def sleep(_: float) -> None:
        now[0] += 50.0

    with locked(home / SWEEP_LOCK):
        code = cancel_sweeps([home], lambda _: 0, said.append, sleep, lambda: now[0])
    assert code == 1
    assert "its launcher is still at work" in said[-1]


def test_a_sweep_of_no_runs_is_an_error_and_an_ended_one_is_not_marked(tmp_path: Path) -> None:
    home = sweep(tmp_path)
    with pytest.raises(NoSuchRunError, match="no run here"):
        cancel_sweeps([home], lambda _: 0, print)
    assert not (home / SWEEP_CANCELLED).exists()


def test_a_launcher_starts_nothing_more_of_a_sweep_that_was_cancelled(tmp_path: Path) -> None:
    entry = SimpleNamespace(idle=False, error=None, run_dir=None)
    record: Any = SimpleNamespace(path=tmp_path, asked=[entry])
    nothing: Any = SimpleNamespace()
    (tmp_path / CANCELLED).write_text("{}")
    assert Submission(record, [nothing], [{}], nothing, "").one(0) is None
    assert entry.error == "not submitted: the sweep was cancelled"
    assert list(tmp_path.iterdir()) == [tmp_path / CANCELLED]


def test_launcher_and_commands_mean_the_same_files() -> None:
    assert (CANCELLED, LOCK) == (SWEEP_CANCELLED, SWEEP_LOCK)
