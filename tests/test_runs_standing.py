"""Where a run stands, with Slurm's word beside it: the words of `list`, `show` and `watch`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.runs.facts import read_facts
from jobs.runs.looking import Watcher
from jobs.runs.measuring import measuring, sweep_left_s
from jobs.runs.standing import BulkStatus, Standing, stand
from jobs.slurm_ask import Answer
from jobs.store import RunDir
from tests.fakes_runs import (
    DOWN,
    EMPTY,
    Slurm,
    booked,
    end,
    event,
    land,
    listed,
    make_dir,
    submitted,
)

NOW = 1767226200.0
"""2026-01-01T00:10:00Z."""


def standing(run: RunDir, slurm: Slurm, now: float = NOW) -> Standing:
    return stand(read_facts(run), BulkStatus(slurm), now)


def prepared(_run: RunDir) -> None:
    """Nothing began."""


def starting(run: RunDir) -> None:
    event(run, "start")
    event(run, "start", "started", step="prefill0", node="n1", pid=7)
    event(run, "start", "ready", step="prefill0", after_s=3.0)
    event(run, "start", "started", step="decode0", node="n2", pid=8)
    event(run, "start", "start_up", step="decode0", start_up="weights", after_s=2.0)


def sweeping(run: RunDir) -> None:
    starting(run)
    land(run, 0, 4)
    event(run, "point c8")


def asking(run: RunDir) -> None:
    sweeping(run)
    event(run, "accuracy")


def leaving(run: RunDir) -> None:
    sweeping(run)
    event(run, "teardown")


def completed(run: RunDir) -> None:
    sweeping(run)
    land(run, 1, 8)
    end(run, "completed")


def failed(run: RunDir) -> None:
    sweeping(run)
    end(run, "failed", "decode0 ended with 1\nits log says more")


def cancelled(run: RunDir) -> None:
    sweeping(run)
    end(run, "cancelled", "cancelled: the driver received SIGTERM")


def timed_out(run: RunDir) -> None:
    sweeping(run)
    end(run, "timed_out", "Slurm's time limit")


Moment = Callable[[RunDir], None]


@pytest.mark.parametrize(
    ("moment", "squeue", "sacct", "word", "text", "slurm"),
    [
        (prepared, listed("PENDING"), EMPTY, "queued", "queued", "PENDING"),
        (prepared, listed("CONFIGURING"), EMPTY, "queued", "queued", "CONFIGURING"),
        (prepared, listed("RUNNING"), EMPTY, "starting", "its driver begins", "RUNNING"),
        (starting, listed("RUNNING"), EMPTY, "starting", "1/2 workers ready, weights", "RUNNING"),
        (sweeping, listed("RUNNING"), EMPTY, "sweep", "sweep 1/2, at c8", "RUNNING"),
        (asking, listed("RUNNING"), EMPTY, "accuracy", "accuracy 0/0", "RUNNING"),
        (leaving, listed("COMPLETING"), EMPTY, "ending", "ending (teardown)", "COMPLETING"),
        (completed, EMPTY, booked("COMPLETED"), "completed", "completed", "COMPLETED"),
        (failed, EMPTY, booked("FAILED"), "failed", "failed in point c8", "FAILED"),
        (cancelled, EMPTY, booked("CANCELLED by 0"), "cancelled", "cancelled in", "CANCELLED"),
        (timed_out, EMPTY, booked("TIMEOUT"), "timed_out", "timed out in point c8", "TIMEOUT"),
        (sweeping, DOWN, DOWN, "sweep", "sweep 1/2", "?"),
        (completed, DOWN, DOWN, "completed", "completed", "?"),
        (sweeping, EMPTY, EMPTY, "sweep", "sweep 1/2", "?"),
        (prepared, EMPTY, booked("CANCELLED by 0"), "cancelled", "before it began", "CANCELLED"),
    ],
)
def test_our_word_and_slurms_word_stand_side_by_side(
    tmp_path: Path, moment: Moment, squeue: Answer, sacct: Answer, word: str, text: str, slurm: str
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    moment(run)
    found = standing(run, Slurm(squeue, sacct))
    assert (found.word, found.slurm) == (word, slurm)
    assert text in found.text
    assert not found.disagrees or "CANCELLED" in found.remark


@pytest.mark.parametrize(
    ("moment", "squeue", "sacct", "word", "remark"),
    [
        (completed, EMPTY, booked("FAILED"), "completed", "run says completed, Slurm says FAILED"),
        (completed, EMPTY, booked("NODE_FAIL"), "completed", "Slurm says NODE_FAIL"),
        (failed, EMPTY, booked("COMPLETED"), "failed", "run says failed, Slurm says COMPLETED"),
        (sweeping, EMPTY, booked("TIMEOUT"), "lost", "no last word (it was in point c8)"),
        (starting, EMPTY, booked("NODE_FAIL"), "lost", "Slurm says NODE_FAIL, the run left no"),
        (prepared, EMPTY, booked("FAILED"), "lost", "Slurm says FAILED, the run never began"),
        (sweeping, listed("PENDING", reason="BeginTime"), EMPTY, "queued", "put it back"),
        (failed, listed("PENDING", reason="BeginTime"), EMPTY, "queued", "put it back"),
        (failed, listed("RUNNING"), EMPTY, "failed", "15 min ago, Slurm says RUNNING"),
    ],
)
def test_where_the_two_disagree_it_is_said_in_words(
    tmp_path: Path, moment: Moment, squeue: Answer, sacct: Answer, word: str, remark: str
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    moment(run)
    found = standing(run, Slurm(squeue, sacct), NOW + 900)
    assert found.disagrees
    assert found.word == word
    assert remark in found.remark


@pytest.mark.parametrize("job", ["slurm", "local"])
def test_a_run_that_ended_before_anything_was_started_says_so(tmp_path: Path, job: str) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    if job == "local":
        run.submission.write_text('{"executor": "local", "job_id": "999999999", "log": "x"}')
    found = standing(run, Slurm(EMPTY, booked("TIMEOUT")))
    assert (found.word, found.text, found.over) == ("lost", "lost before it began", True)
    assert "before its driver began: nothing was started" in found.state.text
    assert f"{run.path}/submitit may say why" in found.state.text
    event(run, "start")
    found = standing(run, Slurm(EMPTY, booked("TIMEOUT")))
    assert found.text == "lost"
    assert "without a last word of its driver" in found.state.text


def test_a_job_that_ended_a_moment_ago_may_still_be_listed_as_running(tmp_path: Path) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    completed(run)
    assert not standing(run, Slurm(listed("RUNNING")), NOW + 5).disagrees


def test_many_runs_cost_one_squeue_and_one_sacct(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(command: object) -> Answer:
        assert isinstance(command, tuple)
        asked.append(command[0])
        return EMPTY

    runs = [submitted(make_dir(tmp_path, f"{i:06x}"), str(100 + i)) for i in range(20)]
    watcher = Watcher(runs, BulkStatus(ask))
    watcher.ask_slurm()
    assert len(watcher.look()) == 20
    assert asked == ["squeue", "sacct"]


@pytest.mark.parametrize("job_id", ["--user=me", "1 2", "5001;x", "-1", "", "$(id)", "5001,5002"])
def test_what_is_no_job_id_in_submission_json_is_told_and_never_asked_about(
    tmp_path: Path, job_id: str
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"), job_id)
    watcher = Watcher([run], BulkStatus(Slurm(DOWN, DOWN)))
    watcher.ask_slurm()
    (one,) = watcher.look()
    assert one.facts.submission.job_id == ""
    assert "not used" in "".join(one.facts.warnings)


def test_torn_and_foreign_records_cost_one_warning_and_are_not_believed(tmp_path: Path) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    sweeping(run)
    land(run, 1, 8, run_id="another")
    run.point(7, 7).write_text('{"torn')
    run.outcome.write_text('{"status": "compl')
    with run.events.open("a") as stream:
        stream.write('{"no": "event"}\nnot json\n{"t": "2026-01-01T00:00:09+00:00", "pha')
    found = read_facts(run)
    assert sorted(found.points) == [0]
    assert found.timeline.phase == "point c8"
    told = "\n".join(found.warnings)
    assert "run_id is 'another'" in told
    assert "7-c7.json" in told
    assert "2 lines cannot be read" in told
    assert standing(run, Slurm(listed("RUNNING"))).word == "sweep"


def test_half_an_event_is_read_once_its_other_half_came(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    event(run, "start")
    facts = read_facts(run)
    whole = json.dumps({"t": "2026-01-01T00:00:09+00:00", "phase": "router", "event": "phase"})
    with run.events.open("a") as stream:
        stream.write(whole[:20])
        stream.flush()
        facts.refresh()
        assert facts.timeline.phase == "start"
        stream.write(whole[20:] + "\n")
        stream.flush()
        facts.refresh()
    assert facts.timeline.phase == "router"
    assert facts.warnings == []


def progress(run: RunDir, name: str, **more: object) -> None:
    told = {"stage": "measured", "done": 8, "failed": 0, "total": 32, "elapsed_s": 4.0}
    told |= {"t": time.time(), "tokens": 800.0, **more}
    run.progress(name).write_text(json.dumps(told))


def test_time_left_is_the_rest_at_the_rate_so_far(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa", points=(4, 8, 16))
    sweeping(run)
    progress(run, "c8")
    facts = read_facts(run)
    now = measuring(facts)
    assert now is not None
    # 8 requests in 4 s, 24 to go; then 64 of c16: at 2/s 32 s, at twice the concurrency 16 s.
    assert (now.per_s, now.tokens_per_s, now.left_s) == (2.0, 200.0, 12.0)
    assert sweep_left_s(facts, now) == (12.0 + 16.0, 12.0 + 32.0)


@pytest.mark.parametrize(
    "torn",
    [
        {"done": -1},
        {"done": 40},
        {"failed": 9},
        {"total": 0},
        {"tokens": -5.0},
        {"elapsed_s": -1.0},
        {"stage": 3},
        {"done": "8"},
    ],
)
def test_progress_that_cannot_be_is_not_shown(tmp_path: Path, torn: dict[str, object]) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    sweeping(run)
    progress(run, "c8", **torn)
    assert measuring(read_facts(run)) is None


def test_the_progress_of_another_point_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    run = make_dir(tmp_path, "aaaaaa")
    sweeping(run)
    progress(run, "c4")
    assert measuring(read_facts(run)) is None
