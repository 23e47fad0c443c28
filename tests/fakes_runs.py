"""Run directories as a job leaves them at some moment, without running one; and the commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.__main__ import main
from jobs.runs.cancelling import Cancelling
from jobs.slurm_ask import Answer
from jobs.store import RunDir
from tests.fakes_jobs import PYTHON, REPO, pair_run

EMPTY = Answer(0)
DOWN = Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")


def jobs(
    *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`python -m jobs ...` as people type it; no terminal."""
    return subprocess.run(
        [PYTHON, "-m", "jobs", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPO), **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


def here(*words: str | Path) -> Said:
    """The same within this process, where many calls would take long."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue())


def name_of(end: str, label: str = "pair", day: str = "20260101") -> str:
    """A run directory's name as the launcher makes it."""
    return f"{day}-000000-{label}-{end}"


def make_dir(results: Path, end: str, points: Sequence[int] = (4, 8), **more: Any) -> RunDir:
    """A run that was prepared and never begun."""
    folder = results / name_of(end)
    folder.mkdir(parents=True)
    document = {**pair_run(points=tuple(points)), "run_id": folder.name, "name": "pair", **more}
    run = RunDir(folder)
    run.run_json.write_text(json.dumps(document))
    run.make_folders()
    return run


def submitted(run: RunDir, job_id: str = "5001", executor: str = "slurm") -> RunDir:
    """As after a submission."""
    record = {"executor": executor, "job_id": job_id, "log": str(run.path / "submitit" / "x.out")}
    run.submission.write_text(json.dumps(record))
    return run


def event(run: RunDir, phase: str, name: str = "phase", t: str = "00:00:01", **more: Any) -> None:
    """One line in events.jsonl."""
    line = {"t": f"2026-01-01T{t}+00:00", "phase": phase, "event": name, "text": "x", **more}
    with run.events.open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def land(run: RunDir, index: int, concurrency: int, **more: Any) -> Path:
    """The record of one point."""
    record = {
        "run_id": run.path.name,
        "index": index,
        "name": f"c{concurrency}",
        "engine": "rehearsal",
        "rehearsal": True,
        "client": "native",
        "concurrency": concurrency,
        "num_prompts": 4 * concurrency,
        "isl": 120,
        "osl": 10,
        "range_definition": "inferencemax",
        "range_ratio": 0.8,
        "input_range": [100, 120],
        "output_range": [8, 10],
        "seed": index,
        "started_at": "2026-01-01T00:00:00+00:00",
        "ended_at": "2026-01-01T00:00:10+00:00",
        "duration_s": 10.0,
        "completed": 4 * concurrency,
        "failed": 0,
        "total_input_tokens": 9000,
        "total_output_tokens": 1000,
        **more,
    }
    path = run.point(index, concurrency)
    path.write_text(json.dumps(record))
    return path


def end(
    run: RunDir, status: str, cause: str = "", ended: str = "2026-01-01T00:10:00+00:00"
) -> None:
    """outcome.json."""
    record = {
        "run_id": run.path.name,
        "status": status,
        "phase": "done" if status == "completed" else "point c8",
        "cause": cause,
        "started_at": "2026-01-01T00:00:00+00:00",
        "ended_at": ended,
        "points_written": 1,
        "points_planned": 2,
    }
    run.outcome.write_text(json.dumps(record))


class Slurm:
    """What squeue and sacct say of jobs, and what scancel was asked."""

    def __init__(self, squeue: Answer = EMPTY, sacct: Answer = EMPTY) -> None:
        self.squeue, self.sacct = squeue, sacct
        self.scancel = EMPTY
        self.cancelled: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        if command[0] == "scancel":
            self.cancelled.append(list(command[1:]))
            return self.scancel
        return {"squeue": self.squeue, "sacct": self.sacct}[command[0]]


def listed(state: str, job_id: str = "5001", reason: str = "None") -> Answer:
    """squeue listing one of our jobs beside somebody's."""
    return Answer(0, f"4999|RUNNING|n1|None\n{job_id}|{state}|n[1-2]|{reason}\n")


def booked(state: str, job_id: str = "5001") -> Answer:
    """sacct with one job."""
    return Answer(0, f"{job_id}|{state}|n[1-2]\n")


def cancel(runs: list[RunDir], slurm: Slurm) -> tuple[int, str, Slurm]:
    """The exit status, what was said, and Slurm, with time that runs fast."""
    said: list[str] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    code = Cancelling(runs, said.append, slurm, sleep, lambda: now[0]).until_ended()
    return code, "\n".join(said), slurm


class Ending(Slurm):
    """A Slurm whose job 5001 ends on scancel, as the states say one after the other."""

    def __init__(self, *states: str) -> None:
        super().__init__(listed(states[0]))
        self.states = list(states)

    def __call__(self, command: object) -> Answer:
        assert isinstance(command, tuple | list)
        answer = super().__call__(command)
        if command[0] == "scancel" and len(self.states) > 1:
            del self.states[0]
            ended = self.states[0] in ("CANCELLED", "FAILED", "COMPLETED")
            self.squeue = EMPTY if ended else listed(self.states[0])
            self.sacct = booked(self.states[0]) if ended else EMPTY
        return answer
