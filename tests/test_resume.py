"""A run that ended early goes on where it stopped, with the same deployment, once at a time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import RunRefusedError
from jobs.landed import look_at_records, set_aside
from jobs.resume import resume as resume_here
from jobs.run_file import read_run
from jobs.run_state import RunWatch
from jobs.store import RunDir
from tests.fakes_jobs import (
    PYTHON,
    REPO,
    events,
    held_back,
    left_over,
    make_run,
    outcome,
    pair_run,
    start_driver,
    wait_for_event,
)
from tests.patience import wait_until


def resume(run_dir: RunDir, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m jobs resume RUN`, to its end."""
    return subprocess.run(
        [PYTHON, "-m", "jobs", "resume", str(run_dir.path), *words],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("SLURM_")},
    )


def stopped_after_one_point(folder: Path, number: signal.Signals) -> RunDir:
    """A run of two points whose driver was signalled once the first was written; until then the
    client of the second is held back."""
    document = pair_run(points=(2, 3))
    hold = held_back(document["plan"]["points"][1]["step"], folder.with_name(f"hold-{folder.name}"))
    run_dir = make_run(folder, document)
    driver = start_driver(run_dir)
    wait_for_event(run_dir, event="point")
    driver.send_signal(number)
    driver.wait(timeout=120)
    wait_until(lambda: not left_over(run_dir), "nothing is left")
    hold.unlink()
    return run_dir


@pytest.fixture(scope="module")
def cancelled(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Such a run, to be copied."""
    return stopped_after_one_point(tmp_path_factory.mktemp("cancelled") / "run", signal.SIGTERM)


@pytest.fixture
def stopped(cancelled: RunDir, tmp_path: Path) -> RunDir:
    """A copy of it, to do with as one likes."""
    shutil.copytree(cancelled.path, tmp_path / "run")
    return RunDir(tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_goes_on_with_what_is_missing_and_keeps_what_was_measured(
    tmp_path: Path, number: signal.Signals
) -> None:
    run_dir = stopped_after_one_point(tmp_path / "run", number)
    first = run_dir.point(0, 2)
    before = (first.read_bytes(), first.stat().st_mtime_ns)
    done = resume(run_dir)
    assert done.returncode == 0, done.stderr
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert run_dir.point(1, 3).is_file()
    ended = outcome(run_dir)
    assert (ended["status"], ended["attempts"], ended["points_written"]) == ("completed", 2, 2)
    told = {n: json.loads(run_dir.attempt(n).read_text()) for n in (1, 2)}
    assert told[1]["status"] == ("cancelled" if number == signal.SIGTERM else "lost")
    assert (told[2]["status"], told[2]["points_before"]) == ("completed", 1)
    assert (run_dir.logs / "attempt1" / "decode0.log").is_file()
    assert run_dir.log("decode0").is_file()
    clients = [
        e["step"] for e in events(run_dir) if e["event"] == "started" and "client" in e["step"]
    ]
    assert clients == ["client-c2", "client-c3", "client-c3"]
    again = resume(run_dir)
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    assert outcome(run_dir) == ended


def test_a_running_run_is_not_resumed_and_of_two_resumes_one_wins(
    stopped: RunDir, tmp_path: Path
) -> None:
    run_dir = stopped
    line = [PYTHON, "-m", "jobs", "resume", str(run_dir.path)]
    both = [
        subprocess.Popen(line, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    texts = [process.communicate(timeout=120)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], texts
    lost = texts[[process.returncode for process in both].index(2)]
    assert "another resume is at work" in lost or "is running" in lost
    assert outcome(run_dir)["attempts"] == 2
    document = pair_run(points=(2,))
    hold = held_back(document["plan"]["points"][0]["step"], tmp_path / "hold")
    driver = start_driver(make_run(tmp_path / "living", document))
    living = RunDir(tmp_path / "living")
    wait_for_event(living, event="started")
    refused = resume(living)
    assert refused.returncode == 2
    assert "is running (host" in refused.stderr
    hold.unlink()
    assert driver.wait(timeout=120) == 0


def test_a_resume_is_alone_until_its_driver_has_ended(stopped: RunDir) -> None:
    """What a second one puts apart would be taken from under the first one's driver."""
    began: list[str] = []

    def execute(run_dir: RunDir) -> int:
        with pytest.raises(RunRefusedError, match="another resume is at work"):
            resume_here(run_dir, execute, False, RunWatch(run_dir))
        began.append(run_dir.path.name)
        return 0

    assert resume_here(stopped, execute, False, RunWatch(stopped)) == 0
    assert began == [stopped.path.name]


def test_a_changed_deployment_is_refused_with_what_differs(stopped: RunDir) -> None:
    run_dir = stopped
    document = json.loads(run_dir.run_json.read_text())
    whole = json.dumps(document)
    document["plan"]["workers"][1]["argv"].append("--block-size=32")
    document["plan"]["router"]["env"]["RUST_LOG"] = "debug"
    document["engine"]["release"] = "0.32.0"
    run_dir.run_json.write_text(json.dumps(document))
    refused = resume(run_dir)
    assert refused.returncode == 2
    assert 'engine.release: "0.33.0" -> "0.32.0"' in refused.stderr
    assert 'steps.decode0.argv: [] -> ["--block-size=32"]' in refused.stderr
    assert 'steps.router.env.RUST_LOG: null -> "debug"' in refused.stderr
    assert outcome(run_dir)["status"] == "cancelled"
    run_dir.run_json.write_text(whole)
    told = json.loads(run_dir.deployment.read_text())
    run_dir.deployment.write_text(json.dumps({**told, "code": "other"}))
    refused = resume(run_dir)
    assert refused.returncode == 2
    assert "--accept-code" in refused.stderr
    assert resume(run_dir, "--accept-code").returncode == 0


def good_point(run_dir: RunDir) -> dict[str, Any]:
    """A record as the run itself would write it."""
    plan = json.loads(run_dir.run_json.read_text())["plan"]["points"][0]
    copied = ("index", "name", "concurrency", "num_prompts", "isl", "osl", "seed")
    return {
        **{key: plan[key] for key in copied},
        **{"run_id": "r-test", "engine": "rehearsal", "rehearsal": True, "client": "native"},
        **{"range_definition": "inferencemax", "range_ratio": 0.8, "input_range": [100, 120]},
        **{"output_range": [8, 10], "started_at": "x", "ended_at": "y", "duration_s": 1.0},
        **{"completed": 8, "failed": 0, "total_input_tokens": 900, "total_output_tokens": 72},
    }


WRONG: dict[str, Any] = {
    "half": '{"run_id": "r-test", "ind',
    "empty": "",
    "of another run": {"run_id": "r-other"},
    "of another schema": {"schema": 9},
    "of a negative index": {"index": -1},
    "of another point": {"index": 1},
    "of another load": {"num_prompts": 9},
    "with more answers than questions": {"completed": 999},
    "without time": {"duration_s": 0.0},
    "with a wrong type": {"completed": "8"},
    "not finite": '{"duration_s": NaN}',
    "no object": "[1]",
    "too large": " " * (8 * 2**20 + 1),
    "binary": "\x00\xff",
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_record_that_is_torn_or_foreign_is_told_set_aside_and_measured_again(
    tmp_path: Path, kind: str
) -> None:
    run_dir = make_run(tmp_path, pair_run(points=(2,)))
    run_dir.make_folders()
    path = run_dir.point(0, 2)
    change = WRONG[kind]
    path.write_text(change if isinstance(change, str) else json.dumps(good_point(run_dir) | change))
    run = read_run(run_dir.run_json)
    landed = look_at_records(run, run_dir)
    assert landed.points == {}
    assert list(landed.problems) == [path]
    assert landed.missing(run) == ["c2"]
    set_aside(run, run_dir, landed)
    assert not path.exists()
    assert path.with_name("0-c2.json.rejected").exists()


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_what_is_no_plain_file_is_never_a_record(tmp_path: Path, kind: str) -> None:
    run_dir = make_run(tmp_path, pair_run(points=(2,)))
    run_dir.make_folders()
    path = run_dir.point(0, 2)
    elsewhere = tmp_path / "elsewhere.json"
    if kind == "link":
        elsewhere.write_text(json.dumps(good_point(run_dir)))
        path.symlink_to(elsewhere)
    elif kind == "dangling link":
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    landed = look_at_records(read_run(run_dir.run_json), run_dir)
    assert landed.points == {}
    assert "not a regular file" in landed.problems[path]


def test_a_good_record_is_believed_and_a_stranger_beside_it_only_told(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, pair_run(points=(2,)))
    run_dir.make_folders()
    run_dir.point(0, 2).write_text(json.dumps(good_point(run_dir)))
    stranger = run_dir.points / "-1-c64.json"
    stranger.write_text("{}")
    run = read_run(run_dir.run_json)
    landed = look_at_records(run, run_dir)
    assert set(landed.points) == {0}
    assert list(landed.problems) == [stranger]
    set_aside(run, run_dir, landed)
    assert stranger.exists()
