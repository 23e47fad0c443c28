"""`python -m jobs resume RUN`: what is missing of a run, measured in a new job of the same
deployment; refused while the run lives, when the deployment changed, or when another resume is
at work."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.attempts import count, last_attempt, put_apart
from jobs.deployment import code_print, deployment_of, differences, record_of
from jobs.errors import RunRefusedError
from jobs.landed import look_at_records, set_aside
from jobs.record_files import read_object
from jobs.run_file import read_run
from jobs.run_lock import holder
from jobs.run_state import RunState, RunWatch, submission
from jobs.store import RunDir, write_json
from jobs.submission import Submission, grace_s, job_name_in, sbatch_asker

log = logging.getLogger("jobs")

LOOKS = 2
LOOK_APART_S = 3.0
"""A job is taken for gone when the controller, asked twice, does not list it."""


def resume(
    run_dir: RunDir, execute: Callable[[RunDir], int], accept_code: bool, watch: RunWatch
) -> int:
    """0 when the missing part is submitted (Slurm) or done (here), or nothing is missing."""
    data = read_object(run_dir.run_json)
    run = read_run(run_dir.run_json)
    with _alone(run_dir):
        state = settled(watch)
        landed = look_at_records(run, run_dir)
        for problem in landed.problems.values():
            log.warning("not believed: %s", problem)
        missing = landed.missing(run)
        measures = bool(run.plan.points or run.plan.accuracy)
        if not missing and (measures or state.word == "completed"):
            log.info("nothing to do: all %d points are there; %s", len(landed.points), state.text)
            return 0
        # A Slurm job runs the code that was submitted with the run, whatever has become of ours.
        own = run.plan.executor == "slurm" and run.snapshot
        print_of = code_print(Path(run.snapshot.code_dir)) if own and run.snapshot else code_print()
        _same_deployment(run_dir, data, accept_code, print_of)
        log.info("%s ended %s; missing: %s", run.run_id, state.word, ", ".join(missing) or "an end")
        set_aside(run, run_dir, landed)
        if last_attempt(run_dir) is not None:
            put_apart(run_dir, count(run_dir))
        elif os.path.lexists(run_dir.outcome):
            put_apart(run_dir, 0)
        if run.plan.executor == "slurm":
            job_id = _submit(run_dir)
            log.info("submitted job %s; python -m jobs follow %s", job_id, run_dir.path)
            return 0
        # Still alone: what another resume puts apart must not be what this driver begins with.
        return execute(run_dir)


def settled(watch: RunWatch, sleep: Callable[[float], None] = time.sleep) -> RunState:
    """How the run ended; RunRefusedError while it may still live.

    The controller lists every job that is not over, so one that it does not list, asked twice, is
    over even where no accounting says how.
    """
    who = holder(watch.run_dir)
    if who is not None:
        raise RunRefusedError(f"{watch.run_dir.path} is running ({who}): nothing to resume yet")
    gone = 0
    while True:
        state = watch.look()
        if state.over:
            return state
        job = state.job
        if state.word != "unknown" or job is None:
            raise RunRefusedError(f"{watch.run_dir.path}: {state.text}: nothing to resume yet")
        gone = gone + 1 if job.listed is False else 0
        if gone >= LOOKS:
            return RunState("lost", True, state.text, None, job)
        if job.listed is None:
            raise RunRefusedError(
                f"{watch.run_dir.path}: {state.text}: whether its job still runs cannot be said; "
                "resume when squeue answers again"
            )
        sleep(LOOK_APART_S)


def _same_deployment(run_dir: RunDir, data: dict[str, Any], accept_code: bool, code: str) -> None:
    before = record_of(run_dir)
    if before is None:
        return
    changed = list(differences(before.get("deployment"), deployment_of(data)))
    if changed:
        raise RunRefusedError(
            "the deployment is not the one that measured this run's points; launch a new run, or "
            "put back:\n  " + "\n  ".join(changed)
        )
    if before.get("code") != code and not accept_code:
        raise RunRefusedError(
            "the launcher's own code (jobs/) has changed since this run's first attempt: check "
            "that version out again, or say --accept-code (the change is recorded)"
        )


def _submit(run_dir: RunDir) -> str:
    record = submission(run_dir)
    script = run_dir.path / "batch.sh"
    if not script.is_file():
        raise RunRefusedError(f"{script} is not there: the launcher writes it at submission")
    earlier = [str(i) for i in [*_texts(record.get("earlier")), record.get("job_id")] if i]
    name = f"{job_name_in(script)}-r{count(run_dir) + 1}"
    known = frozenset(earlier)
    job_id = Submission(script, name, grace_s(run_dir), known, asker=sbatch_asker()).submit()
    log_path = run_dir.path / "submitit" / f"{job_id}_0_log.out"
    record |= {"executor": "slurm", "job_id": job_id, "log": str(log_path), "earlier": earlier}
    write_json(run_dir.submission, record)
    return job_id


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


@contextmanager
def _alone(run_dir: RunDir) -> Iterator[None]:
    """One resume of a run at a time; RunRefusedError for the second."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(run_dir.path / "resume.lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        who = holder(run_dir)
        if who is not None:
            text = f"{run_dir.path} is running ({who}): nothing to resume yet"
            raise RunRefusedError(text) from None
        raise RunRefusedError(f"{run_dir.path}: another resume is at work") from None
    try:
        yield
    finally:
        os.close(descriptor)
