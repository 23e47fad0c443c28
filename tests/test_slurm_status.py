"""How a job stands, from answers that fail, lag, contradict each other or are not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.free_nodes import count_nodes
from jobs.run_state import RunWatch
from jobs.slurm_ask import Answer, ask_slurm
from jobs.slurm_status import SlurmStatus
from jobs.store import RunDir
from jobs.waiting import Waiting

DOWN = Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
PURGED = Answer(1, "", "slurm_load_jobs error: Invalid job id specified")
SILENT = Answer(None, "", "squeue gave no answer within 30 s")
NO_BOOK = Answer(1, "", "Slurm accounting storage is disabled")
BOOK_DOWN = Answer(1, "", "sacct: error: slurm_persist_conn_open: failed to open persistent")
EMPTY = Answer(0)


def q(state: str) -> Answer:
    """squeue listing job 5001."""
    return Answer(0, f"5000|RUNNING|n[1-2]|None\n5001|{state}|(null)|Priority\n")


def a(state: str) -> Answer:
    """sacct with job 5001 and its steps."""
    return Answer(0, f"5001|{state}|None assigned\n5001.batch|COMPLETED|n1\n")


class Told:
    """A clock, and what each program answers now; what was asked is kept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.squeue = self.sacct = EMPTY
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        self.asked.append(command)
        return {"squeue": self.squeue, "sacct": self.sacct}[command[0]]

    def status(self) -> SlurmStatus:
        return SlurmStatus(self, lambda: self.now)


@pytest.mark.parametrize(
    ("squeue", "sacct", "phase"),
    [
        (q("PENDING"), EMPTY, "waiting"),
        (q("RUNNING"), a("PENDING"), "running"),
        (q("RUNNING"), a("COMPLETED"), "running"),
        (q("PENDING"), a("PREEMPTED"), "waiting"),
        (q("COMPLETED"), a("RUNNING"), "ended"),
        (q("SOMETHING_NEW"), EMPTY, "unknown"),
        (EMPTY, BOOK_DOWN, "unknown"),
        (EMPTY, NO_BOOK, "unknown"),
        (EMPTY, EMPTY, "unknown"),
        (EMPTY, a("RUNNING"), "unknown"),
        (EMPTY, a("PENDING"), "unknown"),
        (EMPTY, a("COMPLETED"), "ended"),
        (EMPTY, a("CANCELLED by 0"), "ended"),
        (EMPTY, a("NODE_FAIL"), "ended"),
        (EMPTY, a("PREEMPTED"), "ended"),
        (PURGED, a("RUNNING"), "unknown"),
        (PURGED, a("COMPLETED"), "ended"),
        (DOWN, a("COMPLETED"), "ended"),
        (DOWN, a("NODE_FAIL"), "unknown"),
        (DOWN, a("PREEMPTED"), "unknown"),
        (DOWN, EMPTY, "unknown"),
        (DOWN, BOOK_DOWN, "unknown"),
        (SILENT, a("RUNNING"), "unknown"),
        (SILENT, SILENT, "unknown"),
        (Answer(0, "garbage\n|\n5001\n"), Answer(0, "5001\n"), "unknown"),
    ],
)
def test_the_newer_fact_wins_and_no_answer_is_never_an_end(
    squeue: Answer, sacct: Answer, phase: str
) -> None:
    told = Told()
    told.squeue, told.sacct = squeue, sacct
    assert told.status().look(["5001"])["5001"].state.phase == phase


def test_polls_of_a_lagging_accounting_give_an_end_only_at_the_end() -> None:
    told = Told()
    status = told.status()
    seen = []
    for told.now, told.squeue, told.sacct in (
        (0, q("PENDING"), EMPTY),
        (20, q("RUNNING"), EMPTY),
        (40, q("RUNNING"), a("PENDING")),
        (60, EMPTY, BOOK_DOWN),
        (80, PURGED, a("RUNNING")),
        (100, PURGED, a("COMPLETED")),
    ):
        seen.append(status.look(["5001"])["5001"])
    phases = [job.state.phase for job in seen]
    assert phases == ["waiting", "running", "running", "unknown", "unknown", "ended"]
    assert seen[4].unknown_s == 40
    assert seen[4].last.word == "RUNNING"
    assert seen[5].state.ok is True


def test_ids_are_never_given_to_squeue_and_sacct_is_asked_for_the_missing_ones_only() -> None:
    told = Told()
    told.squeue = q("RUNNING")
    told.status().look(["5001", "4999"])
    queue, book = told.asked
    assert not [word for word in queue if "5001" in word or word.startswith(("-j", "--jobs"))]
    assert "--jobs=4999" in book
    assert "--parsable2" in book
    assert "--json" not in (*queue, *book)


def run_of(tmp_path: Path, **cluster: object) -> RunDir:
    """A run directory as the launcher leaves it on Slurm."""
    run_dir = RunDir(tmp_path)
    config = {"cluster": {"controller_s": 100.0, **cluster}}
    run_dir.run_json.write_text(json.dumps({"schema": 1, "run_id": "r", "config": config}))
    run_dir.submission.write_text(json.dumps({"executor": "slurm", "job_id": "5001", "log": "x"}))
    return run_dir


def outcome(status: str, run_id: str = "r") -> str:
    fields = dict.fromkeys(("phase", "cause", "started_at", "ended_at"), "")
    counts = {"points_written": 0, "points_planned": 0}
    return json.dumps({"run_id": run_id, "status": status, **fields, **counts})


def test_a_run_whose_job_nobody_knows_is_waited_for_and_then_lost_not_finished(
    tmp_path: Path,
) -> None:
    told = Told()
    watch = RunWatch(run_of(tmp_path), told.status())
    told.squeue = q("RUNNING")
    assert watch.look().word == "running"
    told.squeue, told.sacct, told.now = EMPTY, NO_BOOK, 50.0
    state = watch.look()
    assert (state.word, state.over) == ("unknown", False)
    assert "this cluster keeps no accounting" in state.text
    told.now = 101.0
    state = watch.look()
    assert (state.word, state.over) == ("lost", True)
    assert "before that RUNNING" in state.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"status": "comple', "not a JSON record"),
        ("", "not a JSON record"),
        (outcome("completed", "another"), "belongs to run 'another'"),
        (outcome("fine"), "has status 'fine'"),
        ('{"schema": 7, "status": "completed"}', "schema 7"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_torn_or_foreign_outcome_is_told_and_not_believed(
    tmp_path: Path, text: str, why: str
) -> None:
    told = Told()
    told.sacct = a("COMPLETED")
    run_dir = run_of(tmp_path)
    run_dir.outcome.write_text(text)
    state = RunWatch(run_dir, told.status()).look()
    assert state.word == "lost"
    assert why in state.text


def test_a_link_in_the_place_of_an_outcome_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    run_dir = run_of(tmp_path / "run")
    (tmp_path / "elsewhere.json").write_text(outcome("completed"))
    run_dir.outcome.symlink_to(tmp_path / "elsewhere.json")
    told = Told()
    told.squeue = q("RUNNING")
    assert RunWatch(run_dir, told.status()).look().word == "running"


def test_a_run_that_slurm_put_back_is_not_over(tmp_path: Path) -> None:
    told = Told()
    run_dir = run_of(tmp_path)
    run_dir.outcome.write_text(outcome("cancelled"))
    told.squeue = q("PENDING")
    assert RunWatch(run_dir, told.status()).look().word == "waiting"
    told.squeue = q("CANCELLED")
    assert RunWatch(run_dir, told.status()).look().word == "cancelled"


def test_waiting_goes_on_through_failing_questions_asked_ever_more_rarely(tmp_path: Path) -> None:
    told = Told()
    told.squeue = told.sacct = DOWN
    run_dir = run_of(tmp_path, controller_s=500.0)

    def sleep(seconds: float) -> None:
        told.now += seconds
        if told.now > 200:
            told.squeue = q("COMPLETED")

    waiting = Waiting(RunWatch(run_dir, told.status()), sleep=sleep, clock=lambda: told.now)
    state = waiting.end()
    assert state.word == "lost"
    assert "(COMPLETED)" in state.text
    assert 200 < told.now < 250
    assert len([command for command in told.asked if command[0] == "squeue"]) < 14


def test_a_missing_program_and_a_silent_one_are_no_answers(tmp_path: Path) -> None:
    missing = ask_slurm([str(tmp_path / "squeue")])
    assert (missing.code, missing.out_of_reach) == (None, True)
    silent = ask_slurm(["sleep", "5"], timeout_s=0.2)
    assert "gave no answer within" in silent.said


def test_nodes_are_counted_once_by_their_use_and_not_at_all_without_an_answer() -> None:
    lines = "n1|idle\nn1|idle\nn2|mixed-\nn3|idle*\nn4|planned\nbroken\nn5|new_word\n"
    counted = count_nodes(lambda _: Answer(0, lines))
    assert counted == {"free": 1, "busy": 1, "unusable": 2, "not now": 1}
    assert count_nodes(lambda _: DOWN) is None
