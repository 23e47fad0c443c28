"""What waits for a run waits for the job that it goes on in, and the tables come last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.followers import hand_on
from jobs.slurm_ask import Answer
from jobs.table_turn import jobs_of, main
from tests.fakes_runs import make_dir, submitted


class Queue:
    """squeue's answer, and what scontrol was told to change."""

    def __init__(self, *lines: str, update: Answer | None = None) -> None:
        self.lines, self.update = lines, update or Answer(0)
        self.updates: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        if command[0] == "squeue":
            return Answer(0, "\n".join(self.lines) + "\n")
        self.updates.append(list(command[2:]))
        return self.update


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ("afterany:7(unfulfilled)", "afterany:7,afterany:9"),
        (
            "afterok:3(unfulfilled),afterany:7(unfulfilled)",
            "afterok:3,afterany:7,afterany:9",
        ),
        ("afterany:6:7", "afterany:6:7,afterany:9"),
        ("afterany:77(unfulfilled)", None),
        ("afterany:7_1(unfulfilled)", None),
        ("singleton(unfulfilled)", None),
        ("(null)", None),
        ("", None),
    ],
)
def test_a_dependency_gains_the_new_job_and_keeps_its_parts(held: str, wanted: str | None) -> None:
    queue = Queue(f"8|{held}", "9|afterany:7(unfulfilled)")
    changed, problems = hand_on("7", "9", queue)
    assert problems == []
    assert changed == (["8"] if wanted else [])
    assert queue.updates == ([["JobId=8", f"Dependency={wanted}"]] if wanted else [])


def test_what_cannot_be_changed_is_told_and_stops_nothing() -> None:
    queue = Queue("8|afterany:7?afterany:5", "10|afterany:7", update=Answer(1, "", "Access denied"))
    changed, problems = hand_on("7", "9", queue)
    assert changed == []
    assert "waits for one of several" in problems[0]
    assert problems[1] == "job 10: scontrol update: Access denied"
    assert hand_on("7", "9", lambda _: Answer(1, "", "down")) == ([], ["squeue: down"])


def test_the_table_job_goes_behind_runs_that_are_still_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """squeue and sbatch are small programs that say what they were asked."""
    home = tmp_path / "sweep"
    submitted(make_dir(home, "aa0001"), "41")
    submitted(make_dir(home, "aa0002"), "42")
    (home / "sweep.json").write_text('{"schema": 1, "table": {"job_id": "50", "error": null}}')
    assert jobs_of(home) == {"41", "42"}
    programs = tmp_path / "bin"
    programs.mkdir()
    _program(programs / "squeue", "printf '50\\n42\\n99\\n'")
    _program(programs / "sbatch", f'echo "$@" > {tmp_path}/asked; echo 51')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "50")
    assert main(home) == 75
    assert (tmp_path / "asked").read_text().split() == [
        *("--parsable", "--dependency=afterany:42", str(home / "table.sh")),
    ]
    assert '"job_id": "51"' in (home / "sweep.json").read_text()
    _program(programs / "squeue", "echo 50")
    assert main(home) == 0
    _program(programs / "squeue", "exit 1")
    assert main(home) == 0


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
