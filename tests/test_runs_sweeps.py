"""Sweeps and the names that every command over runs takes."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from jobs.runs.finding import SWEEP_LOCK, find, has_runs_to_come
from jobs.runs.watching import Watch
from tests.fakes_runs import end, here, land, make_dir, submitted


def sweep_in(results: Path, ending: str = "5eeb00") -> Path:
    """A sweep of two jobs that began, one that Slurm refused, and a copy of an earlier run."""
    home = results / f"20260102-000000-pair-sweep-{ending}"
    home.mkdir(parents=True)
    runs = [
        submitted(make_dir(home, name), job) for name, job in (("aa0001", "7"), ("aa0002", "8"))
    ]
    for run in runs:
        end(run, "completed")
    land(runs[0], 0, 4)
    make_dir(home / "reused", "bb0001")
    (home / "code").mkdir()
    record = {
        "schema": 1,
        "command": "python -m launcher -m topology=a,b,c",
        "combinations": [{"overrides": ["topology=d"], "state": "skipped", "problems": ["why"]}],
        "runs": [
            *({"directory": run.path.name, "state": "submitted", "name": "x"} for run in runs),
            {"directory": None, "state": "refused", "name": "c", "error": "Invalid account"},
        ],
        "table": {"job_id": "9", "error": None},
    }
    (home / "sweep.json").write_text(json.dumps(record))
    return home


def test_list_shows_sweeps_with_what_became_of_their_jobs(tmp_path: Path) -> None:
    home = sweep_in(tmp_path / "runs")
    said = here("list", "-r", tmp_path / "runs").stdout
    assert "bb0001" not in said
    row = next(line for line in said.splitlines() if line.startswith("5eeb00"))
    assert "2 completed, 1 refused" in row
    assert "1/4" in row
    assert "job 9" in row
    (home / "table.txt").write_text("")
    assert "written" in here("list", "-r", tmp_path / "runs").stdout
    rows = json.loads(here("list", "--json", "-r", tmp_path / "runs").stdout)
    assert {row["sweep"] for row in rows} == {home.name}


def test_a_sweep_is_named_like_a_run_and_stands_for_all_its_runs(tmp_path: Path) -> None:
    home = sweep_in(tmp_path / "runs")
    results = ("-r", tmp_path / "runs")
    shown = here("show", "5eeb", *results)
    assert shown.returncode == 0
    assert "refused     c: Invalid account" in shown.stdout
    assert "skipped     topology=d" in shown.stdout
    states = here("state", home.name, *results).stdout.splitlines()
    assert [json.loads(line)["state"] for line in states] == ["completed", "completed"]
    assert here("wait", "5eeb00", *results).returncode == 0
    refused = here("follow", "5eeb00", *results)
    assert refused.returncode == 2


@pytest.mark.parametrize("command", ["state", "wait", "follow", "resume"])
def test_every_command_takes_the_names_that_list_shows(command: str, tmp_path: Path) -> None:
    """The run is completed: each has nothing to do, and says so by its exit status."""
    run = submitted(make_dir(tmp_path / "runs", "cc0001", points=()), "77")
    end(run, "completed")
    for word in ("cc0001", "cc", run.path.name, "77", str(run.path)):
        assert here(command, word, "-r", tmp_path / "runs").returncode == 0, word
    assert here(command, "dd", "-r", tmp_path / "runs").returncode == 2


def test_a_sweep_is_cancelled_by_its_name_only_when_it_is_called_a_sweep(tmp_path: Path) -> None:
    sweep_in(tmp_path / "runs")
    results = ("-r", tmp_path / "runs")
    assert here("cancel", "5eeb00", *results).returncode == 2
    said = here("cancel", "--sweep", "5eeb00", *results)
    assert said.returncode == 0
    assert said.stdout.count("has ended already") == 2
    assert here("cancel", "--sweep", "no-such", *results).returncode == 2


def test_a_run_of_a_sweep_whose_directory_is_gone_is_told(tmp_path: Path) -> None:
    home = sweep_in(tmp_path / "runs")
    (gone,) = home.glob("*aa0002")
    shutil.rmtree(gone)
    row = next(
        line
        for line in here("list", "-r", tmp_path / "runs").stdout.splitlines()
        if line.startswith("5eeb00")
    )
    assert "1 completed, 1 refused, 1 deleted" in row
    shown = here("show", "5eeb00", "-r", tmp_path / "runs").stdout
    assert f"deleted     x: {gone.name} is not there any more" in shown


@pytest.mark.parametrize(
    "damage",
    [
        {"runs": 5, "combinations": {}, "table": []},
        {"runs": [None, {"directory": 5, "state": [1], "reused": 3}], "table": "x"},
        {"combinations": [{"state": "skipped", "overrides": 1, "problems": 2}, 7], "command": []},
    ],
)
def test_a_foreign_sweep_json_gives_no_traceback(tmp_path: Path, damage: dict[str, object]) -> None:
    home = sweep_in(tmp_path / "runs")
    record = json.loads((home / "sweep.json").read_text())
    (home / "sweep.json").write_text(json.dumps({**record, **damage}))
    for words in (["list"], ["show", "5eeb00"], ["cancel", "--sweep", "5eeb00"]):
        done = here(*words, "-r", tmp_path / "runs")
        assert done.returncode == 0, done.stderr
        assert "aa0001" in done.stdout


def test_watch_goes_on_between_two_runs_of_a_sweep_until_its_launcher_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = sweep_in(tmp_path / "runs")
    lock = (home / SWEEP_LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)

    def next_run(_: float) -> None:
        """The first two have ended; the launcher starts a third, sees its end and leaves."""
        if not lock.closed:
            end(submitted(make_dir(home, "aa0003"), "10"), "completed")
            lock.close()

    watch = Watch(
        lambda: find([str(home)], tmp_path).runs,
        Console(force_terminal=False),
        lambda: has_runs_to_come(home),
        sleep=next_run,
    )
    assert has_runs_to_come(home)
    assert watch.until_the_end() == 0
    assert not has_runs_to_come(home)
    assert "aa0003" in capsys.readouterr().out
