"""Attempts of one run: a requeued or resumed job goes on where the last one stopped.

Every driver that works on a run is one attempt, recorded in attempts/<n>.json when it begins and
again when it ends; an attempt that has no end was killed, or lost its node. Logs of earlier
attempts stand in logs/attempt<n>/, their outcomes in attempts/<n>.outcome.json.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.allocation import Ask, ask, utc_now
from jobs.errors import JobError
from jobs.record_files import read_record
from jobs.records import SCHEMA_VERSION, RecordError, to_json
from jobs.store import RunDir, write_json

log = logging.getLogger("jobs")

PUT_BACK_S = 4.0
NAME = re.compile(r"(\d{1,6})\.json")


@dataclass(kw_only=True)
class Attempt:
    """attempts/<n>.json. `status` is running until it ends; `lost` was written by the next one.

    `restart` is Slurm's count of requeues of this job; `points_before` were measured already.
    """

    number: int
    job_id: str | None
    restart: int
    started_at: str
    points_before: int
    ended_at: str | None = None
    status: str = "running"
    phase: str = ""
    cause: str = ""
    schema: int = SCHEMA_VERSION


def last_attempt(run_dir: RunDir) -> Attempt | None:
    """The latest attempt that has a readable record; None before the first."""
    numbers = _numbers(run_dir)
    for number in sorted(numbers, reverse=True):
        try:
            return read_record(Attempt, run_dir.attempt(number))
        except RecordError:
            continue
    return None


def is_restart(run_dir: RunDir, environ: Mapping[str, str]) -> bool:
    """Whether Slurm started this same job again since the last attempt began."""
    last, job_id = last_attempt(run_dir), environ.get("SLURM_JOB_ID")
    if last is None or job_id is None or last.job_id != job_id:
        return False
    return restart_count(environ) > last.restart


def restart_count(environ: Mapping[str, str]) -> int:
    """How often Slurm has put this job back; 0 in its first run and outside Slurm."""
    told = environ.get("SLURM_RESTART_COUNT", "")
    return int(told) if told.isdecimal() else 0


def begin_attempt(run_dir: RunDir, environ: Mapping[str, str], points_before: int) -> Attempt:
    """The next attempt, recorded; what the last one left is put apart first."""
    last = last_attempt(run_dir)
    number = max(_numbers(run_dir), default=0) + 1
    if last is not None:
        if last.status == "running":
            last.status, last.cause = "lost", "no last word: killed, or its node was lost"
            write_json(run_dir.attempt(last.number), to_json(last))
        put_apart(run_dir, number - 1)
    attempt = Attempt(
        number=number,
        job_id=environ.get("SLURM_JOB_ID"),
        restart=restart_count(environ),
        started_at=utc_now(),
        points_before=points_before,
    )
    run_dir.attempts.mkdir(mode=0o700, exist_ok=True)
    write_json(run_dir.attempt(number), to_json(attempt))
    return attempt


def end_attempt(run_dir: RunDir, attempt: Attempt, status: str, phase: str, cause: str) -> None:
    """The attempt's record with its end."""
    attempt.status, attempt.phase, attempt.cause = status, phase, cause
    attempt.ended_at = utc_now()
    try:
        write_json(run_dir.attempt(attempt.number), to_json(attempt))
    except OSError as error:
        # A full disk or a deleted directory is told; the outcome matters more.
        log.error("%s cannot be written: %s", run_dir.attempt(attempt.number), error)


def put_apart(run_dir: RunDir, number: int) -> None:
    """Logs and outcome of attempt `number` moved out of the way of the next one."""
    if os.path.lexists(run_dir.outcome):
        run_dir.attempts.mkdir(mode=0o700, exist_ok=True)
        run_dir.outcome.replace(run_dir.attempts / f"{number}.outcome.json")
    logs = [path for path in run_dir.logs.glob("*.log") if not path.is_dir()]
    if logs:
        apart = run_dir.logs / f"attempt{number}"
        apart.mkdir(mode=0o700, exist_ok=True)
        for path in logs:
            path.replace(apart / path.name)


def count(run_dir: RunDir) -> int:
    """How many attempts there were."""
    return len(_numbers(run_dir))


async def was_put_back(attempt: Attempt, asker: Ask = ask) -> bool:
    """Whether Slurm has put this job back into the queue (requeue, preemption, node failure).

    The controller counts the restart before it sends the signals, so it knows when the driver
    gets its TERM (tried on Slurm 24.11). No answer means no: the next attempt then tells.
    """
    if attempt.job_id is None:
        return False
    try:
        async with asyncio.timeout(PUT_BACK_S):
            answer = await asker(["scontrol", "show", "job", attempt.job_id])
    except (JobError, TimeoutError):
        return False
    found = re.search(r"\bRestarts=(\d+)", answer)
    return found is not None and int(found[1]) > attempt.restart


def _numbers(run_dir: RunDir) -> list[int]:
    if not run_dir.attempts.is_dir():
        return []
    found = (NAME.fullmatch(path.name) for path in run_dir.attempts.iterdir())
    return [int(match[1]) for match in found if match]
