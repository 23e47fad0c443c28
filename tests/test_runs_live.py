"""`watch`, `logs --follow`, `show` and `cancel` beside real rehearsal runs on this machine."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.progress import read_progress
from jobs.store import RunDir
from tests.fakes_jobs import (
    PYTHON,
    REPO,
    left_over,
    outcome,
    pair_run,
    start_driver,
    wait_for_event,
)
from tests.fakes_runs import here, jobs, name_of
from tests.patience import wait_until

SLOW = ("--decode-tps", "4")
"""Ten tokens take 2.5 s: 16 requests at concurrency 4 take 10 s."""

NO_CANARY = {"enabled": False, "prompts": 8, "tokens": 16, "prompt_tokens": 64, "form": "exact"}


def begin(tmp_path: Path, *more: str) -> tuple[RunDir, subprocess.Popen[str]]:
    """A run of one point and its driver, as a local submission leaves them."""
    folder = tmp_path / name_of("abc123")
    folder.mkdir(mode=0o700)
    made = pair_run(points=(4,), decode_more=more, canary=NO_CANARY)
    made["plan"]["budgets"] |= {"no_answer_s": 3600, "no_token_s": 3600}
    document = {**made, "run_id": folder.name, "name": "pair"}
    run = RunDir(folder)
    run.run_json.write_text(json.dumps(document))
    driver = start_driver(run)
    record = {"executor": "local", "job_id": str(driver.pid), "log": str(folder / "driver.log")}
    run.submission.write_text(json.dumps(record))
    return run, driver


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[RunDir, subprocess.Popen[str]]]:
    """A run in a point that takes 40 s; ended with the test."""
    run, driver = begin(tmp_path, "--decode-tps", "1")
    try:
        wait_for_event(run, event="phase", phase="point c4")
        yield run, driver
    finally:
        driver.terminate()
        driver.wait(timeout=120)


def beside(*words: str) -> subprocess.Popen[str]:
    """A command that stays, its output to be read later."""
    return subprocess.Popen(
        [PYTHON, "-m", "jobs", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )


def measured_so_far(run: RunDir) -> int:
    """Requests of the point that have ended, as its client tells."""
    told = read_progress(run.progress("c4"))
    return told.done if told and told.stage == "measured" else 0


@contextmanager
def halted(pid: int, when: Callable[[], bool]) -> Iterator[None]:
    """From that moment on the process stands still: whoever looks has time to see it."""
    wait_until(when, f"the moment to halt {pid}")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def told_until(process: subprocess.Popen[str], words: str) -> str:
    """Its output up to the line with these words; without such a line, up to its end."""
    assert process.stdout
    told = []
    for line in process.stdout:
        told.append(line)
        if words in line:
            break
    return "".join(told)


def test_a_run_is_watched_to_its_end_as_a_line_log(tmp_path: Path) -> None:
    run, driver = begin(tmp_path, *SLOW)
    watch = beside("watch", str(run.path))
    decode = wait_for_event(run, event="started", step="decode0")["pid"]
    with halted(decode, when=lambda: measured_so_far(run) > 0):
        out = told_until(watch, "tok/s so far")
    rest, err = watch.communicate(timeout=120)
    out += rest
    assert driver.wait(timeout=120) == 0
    assert watch.returncode == 0, err
    assert "| start | decode0: ready after" in out
    assert "16 requests" in out
    assert "tok/s so far" in out
    assert "left (estimate)" in out
    assert "= sweep 0/1, at c4" in out
    assert out.splitlines()[-1].endswith("= completed")
    assert "\x1b" not in out
    told = read_progress(run.progress("c4"))
    assert told is not None
    assert (told.stage, told.total, told.failed, told.exact) == ("measured", 16, 0, True)
    shown = here("show", str(run.path))
    assert shown.returncode == 0
    for part in ("1 x DP1", "point c4", "ready", "16/16", "canary      skipped", "REHEARSAL"):
        assert part in shown.stdout
    assert here("watch", str(run.path)).returncode == 0


def test_ctrl_c_leaves_the_run_alone_and_cancel_ends_it_with_its_points_kept(
    slow: tuple[RunDir, subprocess.Popen[str]],
) -> None:
    run, driver = slow
    results = str(run.path.parent)
    watch = beside("watch", "--results", results)
    logs = beside("logs", "abc123", "--follow", "--results", results, "-n", "all")
    assert watch.stdout
    watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    _, err = watch.communicate(timeout=120)
    assert watch.returncode == 130
    assert "the runs go on" in err
    assert "cancel abc123" in err
    assert driver.poll() is None
    assert "sweep 0/1, at c4" in here("list", "--results", results).stdout
    done = jobs("cancel", "abc123", "--results", results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is asked to end the run" in done.stdout
    assert "0 of 1 points kept" in done.stdout
    assert "none left" in done.stdout
    assert outcome(run)["status"] == "cancelled"
    assert driver.wait(timeout=120) == 1
    assert left_over(run) == []
    out, err = logs.communicate(timeout=120)
    assert logs.returncode == 0
    assert "the run is over: cancelled in point c4" in err
    assert {"decode0", "prefill0", "router", "driver"} <= {
        line.split(" ", 1)[0] for line in out.splitlines()
    }
    again = here("cancel", "abc123", "--results", results)
    assert again.returncode == 0
    assert "has ended already (cancelled in point c4)" in again.stdout
    assert here("show", "abc123", "--results", results).returncode == 1
    assert here("watch", "abc123", "--results", results).returncode == 1


def test_a_run_whose_driver_was_killed_is_lost_and_cancel_has_nothing_to_do(
    slow: tuple[RunDir, subprocess.Popen[str]],
) -> None:
    run, driver = slow
    driver.kill()
    driver.wait()
    watch = here("watch", str(run.path))
    assert watch.returncode == 1
    assert "= lost" in watch.stdout
    done = here("cancel", str(run.path))
    assert (done.returncode, "has ended already (lost)" in done.stdout) == (0, True)
    wait_until(lambda: not left_over(run), "the guard stops what is left")


def test_on_a_terminal_one_picture_is_drawn_over_and_over(
    tmp_path: Path,
) -> None:
    run, driver = begin(tmp_path, *SLOW)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="40", PYTHONPATH=str(REPO))
        os.execv(PYTHON, [PYTHON, "-m", "jobs", "watch", str(run.path)])
    drawn, until = b"", time.monotonic() + 120
    while time.monotonic() < until:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    driver.wait(timeout=120)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = drawn.decode(errors="replace")
    assert code == 0, text
    assert "16 requests" in text
    assert "Ctrl-C ends the watching, not the runs" in text
    assert "completed" in text.splitlines()[-3]
    # What is sent must suit a slow line: some hundred bytes a second, not a film.
    assert len(drawn) < 30_000
