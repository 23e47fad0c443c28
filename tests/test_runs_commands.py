"""`list`, `show` and `cancel` over run directories in every state they can be found in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.process_tree import boot_id, start_ticks
from jobs.runs.driver import Driver, read_driver
from jobs.runs.facts import read_facts
from jobs.runs.finding import NoSuchRunError, find, find_one
from jobs.slurm_ask import Answer
from jobs.store import RunDir
from tests.fakes_runs import (
    DOWN,
    EMPTY,
    Ending,
    Slurm,
    booked,
    cancel,
    end,
    event,
    here,
    jobs,
    land,
    listed,
    make_dir,
    name_of,
    submitted,
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs, a sweep of two more, and things that are no runs."""
    folder = tmp_path / "runs"
    make_dir(folder, "aaaaaa", points=(4,))
    submitted(make_dir(folder, "abcdef"), "5001")
    for place in ("111111", "222222"):
        make_dir(folder / "sweep", place)
    (folder / "notes").mkdir()
    (folder / "table.csv").write_text("x")
    return folder


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("abcdef", ["abcdef"]),
        ("abc", ["abcdef"]),
        (name_of("abcdef"), ["abcdef"]),
        (name_of("aaaaaa")[:-3], ["aaaaaa"]),
        ("5001", ["abcdef"]),
        ("111111", ["111111"]),
    ],
)
def test_a_run_is_named_by_its_name_a_beginning_its_end_or_its_job_id(
    results: Path, word: str, found: list[str]
) -> None:
    assert [run.path.name[-6:] for run in find([word], results).runs] == found


def test_a_path_names_a_run_or_all_runs_below_it(results: Path) -> None:
    assert find_one(str(results / name_of("aaaaaa")), Path("/nowhere")).path.name.endswith("aaaaaa")
    assert len(find([str(results / "sweep")], results).runs) == 2
    assert len(find([str(results)], results).runs) == 4
    assert len(find([], results).runs) == 4
    assert len(find(["aaaaaa", "aaaaaa", str(results)], results).runs) == 4


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("a", "2 runs are called so"),
        ("20260101", "runs are called so"),
        ("zzz", "no run of this name or job id"),
        ("4999", "no run of this name or job id"),
        ("/nowhere/at/all", "no such directory"),
        ("{results}/notes", "no run here"),
        ("{results}/table.csv", "is a file"),
        ("{results}/sweep", "holds 2 runs"),
    ],
)
def test_a_word_that_names_no_run_or_several_is_an_error_that_says_so(
    results: Path, word: str, says: str
) -> None:
    with pytest.raises(NoSuchRunError, match=says):
        find_one(word.format(results=results), results)


def test_an_empty_name_is_not_this_folder(results: Path) -> None:
    commands = (["show"], ["list"], ["logs"], ["cancel"], ["cancel", "--sweep"])
    for words in ([*command, word] for command in commands for word in ("", " ")):
        done = here(*words, "--results", results)
        assert (done.returncode, done.stdout) == (2, "")
        assert "an empty name names no run" in done.stderr


def test_several_runs_are_listed_on_lines_that_no_name_can_forge(results: Path) -> None:
    make_dir(results / "sweep", "x\nerror: forged\x1b[31m")
    done = here("show", str(results / "sweep"), "--results", results)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert [line[:2] for line in lines] == ["er", "  ", "  ", "  "]
    assert r"x\nerror: forged\x1b[31m" in done.stderr


def test_list_has_a_row_for_every_run_and_machines_get_the_same(results: Path) -> None:
    run = RunDir(results / name_of("aaaaaa"))
    event(run, "start")
    land(run, 0, 4)
    end(run, "failed", "decode0 ended with 1")
    done = jobs("list", "--results", results, env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split()[:7] == ["when", "run", "label", "job", "state", "Slurm", "points"]
    assert len(rows) == 4
    row = next(row for row in rows if "aaaaaa" in row)
    assert "failed in point c8" in row
    assert "1/1" in row
    assert "decode0 ended with 1" in row
    told = json.loads(here("list", "--json", "--results", results).stdout)
    assert {one["name"][-6:] for one in told} == {"aaaaaa", "abcdef", "111111", "222222"}
    one = next(one for one in told if one["name"].endswith("aaaaaa"))
    assert (one["state"], one["points_landed"], one["points_planned"]) == ("failed", 1, 1)


@pytest.mark.parametrize(
    ("key", "order"),
    [("points", ["222222", "111111"]), ("label", ["222222", "111111"]), ("when", None)],
)
def test_rows_are_sorted_by_what_is_asked_for(
    results: Path, key: str, order: list[str] | None
) -> None:
    first, second = (RunDir(results / "sweep" / name_of(end)) for end in ("111111", "222222"))
    land(first, 0, 4)
    document = json.loads(first.run_json.read_text())
    first.run_json.write_text(json.dumps({**document, "name": "zz"}))
    document = json.loads(second.run_json.read_text())
    second.run_json.write_text(json.dumps({**document, "created": "2026-02-01T00:00:00Z"}))
    words = ("list", "--json", "--results", results, results / "sweep", "--sort", key)
    names = [one["name"][-6:] for one in json.loads(here(*words).stdout)]
    assert names == (order or ["111111", "222222"])
    turned = [one["name"][-6:] for one in json.loads(here(*words, "--reverse").stdout)]
    assert turned == names[::-1]


Damage = Callable[[RunDir], None]


def _no_plan(run: RunDir) -> None:
    run.run_json.write_text('{"schema": 1, "plan": [1, 2')


def _binary(run: RunDir) -> None:
    run.run_json.write_bytes(os.urandom(3000))


def _deep(run: RunDir) -> None:
    run.run_json.write_text("[" * 100_000)


def _other_schema(run: RunDir) -> None:
    document = json.loads(run.run_json.read_text())
    run.run_json.write_text(json.dumps({**document, "schema": 99}))


def _hostile(run: RunDir) -> None:
    document = json.loads(run.run_json.read_text())
    evil = "x\x1b]0;t\x07\n20991231 ok completed"
    run.run_json.write_text(json.dumps({**document, "name": evil, "labels": {evil: evil}}))
    event(run, evil, step=evil)
    end(run, "failed", evil)


def _link(run: RunDir) -> None:
    run.run_json.unlink()
    run.run_json.symlink_to("/etc/passwd")


def _folder(run: RunDir) -> None:
    run.run_json.unlink()
    run.run_json.mkdir()


def _lists(run: RunDir) -> None:
    for path in (run.submission, run.allocation, run.outcome, run.canary, run.point(0, 4)):
        path.write_text("[]")
    run.events.write_text("[]\n3\nnull\n{}\n")


def _nulls(run: RunDir) -> None:
    document = json.loads(run.run_json.read_text())
    none = dict.fromkeys(("created", "name", "labels", "config", "provenance"))
    run.run_json.write_text(json.dumps({**document, **none}))
    run.allocation.write_text('{"nodes": [null, {"index": 5}, 7]}')
    run.submission.write_text('{"executor": null, "job_id": null, "log": 5}')


def _no_folders(run: RunDir) -> None:
    for folder in (run.points, run.logs, run.accuracy, run.gates):
        shutil.rmtree(folder)
    run.points.write_text("a file")


def _pipes(run: RunDir) -> None:
    """Pipes to which nobody writes, in place of all files: reading one would never end."""
    records = (run.submission, run.allocation, run.outcome, run.canary, run.point(0, 4))
    for path in (*records, run.lock, run.submitting, run.events, run.api_key, run.log("prefill0")):
        path.unlink(missing_ok=True)
        os.mkfifo(path)


def _pipe_for_a_plan(run: RunDir) -> None:
    run.run_json.unlink()
    os.mkfifo(run.run_json)


def _leads_nowhere(run: RunDir) -> None:
    run.run_json.unlink()
    run.run_json.symlink_to(run.run_json)


@pytest.mark.parametrize(
    "damage",
    [
        *(_pipes, _pipe_for_a_plan, _leads_nowhere),
        *(_no_plan, _binary, _deep, _other_schema, _hostile),
        *(_link, _folder, _lists, _nulls, _no_folders),
    ],
)
def test_a_damaged_directory_never_gives_a_traceback_or_hides_the_others(
    tmp_path: Path, damage: Damage
) -> None:
    good, bad = make_dir(tmp_path, "aaaaaa"), make_dir(tmp_path, "bbbbbb")
    damage(bad)
    for words in (
        ("list",),
        ("list", "--json"),
        ("show", "bbbbbb"),
        ("logs", "bbbbbb"),
        ("cancel", "bbbbbb"),
    ):
        done = here(*words, "--results", tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1, 2)
        assert "\x1b" not in done.stdout + done.stderr
        if words[0] == "list":
            assert done.returncode == 0
            assert good.path.name[-6:] in done.stdout
    rows = here("list", "--results", tmp_path).stdout.splitlines()
    assert len(rows) == 3


def test_only_the_ids_of_the_runs_own_records_are_cancelled_and_never_a_name(
    tmp_path: Path,
) -> None:
    slurm = Ending("PENDING", "CANCELLED")
    code, said, _ = cancel([submitted(make_dir(tmp_path, "aaaaaa"))], slurm)
    assert code == 0, said
    assert slurm.cancelled == [["--state=PENDING", "5001"]]
    assert "taken back" in said
    assert "cancelled" in said


def test_a_run_taken_back_before_it_began_has_a_last_word(tmp_path: Path) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    cancel([run], Ending("PENDING", "CANCELLED"))
    outcome = json.loads(run.outcome.read_text())
    assert (outcome["status"], outcome["phase"], outcome["points_planned"]) == (
        *("cancelled", "queued"),
        2,
    )


def test_a_running_jobs_driver_gets_term_and_the_job_is_ended_only_if_that_does_not_help(
    tmp_path: Path,
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    event(run, "point c4")
    slurm = Ending("RUNNING", "RUNNING", "CANCELLED")
    code, said, _ = cancel([run], slurm)
    assert slurm.cancelled == [["--batch", "--signal=TERM", "5001"], ["5001"]]
    assert "Slurm ends it" in said
    assert code == 0


def test_a_job_that_begins_while_it_is_taken_back_gets_term_too(tmp_path: Path) -> None:
    slurm = Ending("PENDING", "RUNNING", "CANCELLED")
    code, _, _ = cancel([submitted(make_dir(tmp_path, "aaaaaa"))], slurm)
    assert slurm.cancelled == [["--state=PENDING", "5001"], ["--batch", "--signal=TERM", "5001"]]
    assert code == 0


@pytest.mark.parametrize("down", [DOWN, Answer(None, "", "squeue gave no answer within 30 s")])
def test_without_slurms_answer_nothing_is_said_to_be_cancelled(
    tmp_path: Path, down: Answer
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    event(run, "point c4")
    code, said, slurm = cancel([run], Slurm(down, down))
    assert code == 1
    assert "NOT cancelled" in said
    assert slurm.cancelled == []


def test_a_controller_that_goes_away_between_look_and_scancel_is_told(tmp_path: Path) -> None:
    slurm = Slurm(listed("RUNNING"))
    slurm.scancel = DOWN
    code, said, _ = cancel([submitted(make_dir(tmp_path, "aaaaaa"))], slurm)
    assert code == 1
    assert "Unable to contact slurm controller" in said


@pytest.mark.parametrize(
    ("squeue", "sacct"), [(EMPTY, booked("COMPLETED")), (EMPTY, booked("FAILED")), (EMPTY, EMPTY)]
)
def test_what_has_ended_already_is_said_and_is_no_failure(
    tmp_path: Path, squeue: Answer, sacct: Answer
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"))
    event(run, "point c4")
    code, said, slurm = cancel([run], Slurm(squeue, sacct))
    assert code == 0
    assert "already" in said or "not in Slurm's queue any more" in said
    assert slurm.cancelled == []


def test_a_pid_that_came_back_as_somebody_elses_is_not_signalled(tmp_path: Path) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"), executor="local")
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        began = start_ticks(victim.pid)
        assert began is not None
        host = os.uname().nodename
        for text in (
            f"host {host}, pid {victim.pid}, started {began - 1}, boot {boot_id()}",
            f"host {host}, pid {victim.pid}, started {began}, boot 00000000-another-boot",
            f"host elsewhere, pid {victim.pid}, started {began}, boot {boot_id()}",
            f"host {host}, pid {victim.pid}",
        ):
            run.lock.write_text(text + "\n")
            driver = read_driver(run)
            assert driver is not None
            assert not driver.lives
            assert not driver.terminate()
        time.sleep(0.2)
        assert victim.poll() is None
        assert Driver(host, victim.pid, began, boot_id()).terminate()
        assert victim.wait(timeout=120) == -signal.SIGTERM
    finally:
        victim.kill()
        victim.wait()


def test_a_run_whose_driver_is_on_another_machine_is_neither_lost_nor_cancelled_from_here(
    tmp_path: Path,
) -> None:
    run = submitted(make_dir(tmp_path, "aaaaaa"), executor="local")
    event(run, "point c4")
    run.lock.write_text("host elsewhere, pid 12, started 5, boot x\n")
    assert "elsewhere" in here("list", "--results", tmp_path).stdout
    code, said, _ = cancel([run], Slurm())
    assert (code, "cancel it there" in said) == (1, True)


def test_a_directory_of_runs_is_cancelled_only_when_it_is_called_a_sweep(results: Path) -> None:
    done = here("cancel", results / "sweep", "--results", results)
    assert done.returncode == 2
    assert "cancel --sweep" in done.stderr
    for place in ("111111", "222222"):
        end(RunDir(results / "sweep" / name_of(place)), "completed")
    done = here("cancel", "--sweep", results / "sweep", "--results", results)
    assert done.returncode == 0
    assert done.stdout.count("has ended already") == 2


def test_all_mine_lists_first_and_does_nothing_without_yes(results: Path) -> None:
    run = submitted(RunDir(results / name_of("aaaaaa")), executor="local")
    for other in ("sweep/" + name_of("111111"), "sweep/" + name_of("222222"), name_of("abcdef")):
        end(RunDir(results / other), "completed")
    run.lock.write_text("host elsewhere, pid 12, started 5, boot x\n")
    done = here("cancel", "--all-mine", "--results", results)
    assert done.returncode == 2
    assert "aaaaaa" in done.stdout
    assert "111111" not in done.stdout
    assert "these 1 runs would be cancelled" in done.stderr
    assert here("cancel", "--all-mine", "aaaaaa", "--results", results).returncode == 2
    assert here("cancel", "--results", results).returncode == 2


def test_list_reads_nothing_of_what_runs_a_run(results: Path) -> None:
    """It is asked often, and its start is half of what it costs for hundreds of runs."""
    make_dir(results, "aaa111")
    heavy = ("asyncio", "rich", "jobs.engines", "jobs.commands", "aiohttp", "numpy")
    code = (
        "import sys\nfrom jobs.__main__ import main\n"
        f"main(['list', '--results', {str(results)!r}])\n"
        f"sys.exit(', '.join(set(sys.modules) & set({heavy})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "aaa111" in done.stdout
    assert done.stderr.strip() == ""


def test_a_brief_look_tells_of_a_run_what_a_whole_one_does(results: Path) -> None:
    first = make_dir(results, "aaa111")
    for run in (first, make_dir(results, "bbb222", created="2026-01-01T00:00:00Z")):
        submitted(run)
        land(run, 0, 4)
        (run.points / "9-c9.json").write_text("{}")
    torn = make_dir(results, "ccc333")
    torn.run_json.write_text(torn.run_json.read_text()[:-20])
    strange = make_dir(results, "ddd444", created=5)
    for run in find([], results).runs:
        brief, whole = read_facts(run, brief=True), read_facts(run)
        for name in ("label", "created", "points", "repeats", "planned", "submission", "warnings"):
            assert getattr(brief, name) == getattr(whole, name), (run.path, name)
        assert brief.spec is None or whole.spec is not None
    assert read_facts(strange, brief=True).planned == 2
