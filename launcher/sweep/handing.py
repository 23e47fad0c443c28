"""A sweep handed over: all at once to Slurm, or one run after another on this machine."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import SubmissionError
from launcher.follow import stay_with
from launcher.launching import Job, hand_over, new_run_dir, told
from launcher.schema import LaunchConfig
from launcher.snapshot import Snapshot
from launcher.steps import Surroundings
from launcher.submit import Submitted, held
from launcher.sweep.record import SweepRecord, summary
from launcher.sweep.table_job import submit_table, write_tables
from launcher.sweep.words import end_line, stopped_line, table_line, watch_line

LOCK = "sweep.lock"
"""Held while there are runs to start: `python -m jobs watch | cancel` know by it."""
CANCELLED = "cancelled.json"
"""Written there by `python -m jobs cancel --sweep`: nothing more is to be started."""
INTERRUPTED = 130
THREADS = 4
"""sbatch calls under way at once: jobs keep their order but for neighbours."""


@dataclass(slots=True)
class Submission:
    """A sweep being handed over, job by job."""

    record: SweepRecord
    jobs: list[Job]
    documents: list[dict[str, Any]]
    snapshot: Snapshot
    diff: str
    lane: list[Submitted] = field(default_factory=list)
    """The jobs that were taken, in order."""

    def one(self, place: int) -> Submitted | None:
        """The job of one group; None where there is nothing to run, or Slurm refused it."""
        entry, job, document = self.record.asked[place], self.jobs[place], self.documents[place]
        if entry.idle:
            return None
        if (self.record.path / CANCELLED).exists():
            entry.error = "not submitted: the sweep was cancelled"
            return None
        run_dir = new_run_dir(job, self.record.path)
        limit = self.record.settings.max_jobs
        if limit and len(self.lane) >= limit and job.plan.config.cluster.executor == "slurm":
            entry.after = f"afterany:{job_now(self.lane[-limit])}"
        (run_dir / "content.json").write_text(json.dumps(entry.content) + "\n", encoding="utf-8")
        entry.run_dir = run_dir
        try:
            taken = hand_over(job, document, run_dir, self.snapshot, self.diff, entry.after)
        except SubmissionError as error:
            entry.error, entry.run_dir = str(error), None
            return None
        entry.job_id = taken.job_id
        self.lane.append(taken)
        return taken


def one_after_another(handing: Submission, around: Surroundings) -> int:
    """On this machine: each run to its end, a failed one stops no other; then the tables."""
    with held(handing.record.path / LOCK):
        return _to_the_end(handing, around)


def _to_the_end(handing: Submission, around: Surroundings) -> int:
    codes, record = [], handing.record
    sys.stdout.write(summary(record))
    for place, entry in enumerate(record.asked):
        taken = handing.one(place)
        record.write()
        if entry.error:
            sys.stderr.write(f"error: {entry.name}: {entry.error}\n")
            codes.append(1)
        if taken is None:
            continue
        sys.stdout.write(told(handing.jobs[place], taken, around.python))
        stayed = stay_with(taken, around)
        codes.append(stayed.code)
        if stayed.interrupted:
            sys.stderr.write("stopped: the sweep's other runs are not started\n")
            break
    codes.append(write_tables(record.path, around))
    sys.stdout.write(end_line(record, codes))
    return 1 if any(codes) else 0


def all_at_once(handing: Submission, around: Surroundings, config: LaunchConfig) -> int:
    """On Slurm: every job handed over, whatever became of the others, and the table job after.

    After a Ctrl-C the sbatch calls under way are waited for, and what was handed over is told.
    """
    record, taken = handing.record, []
    try:
        # Lanes need the ids of earlier jobs; without them sbatch's answers are waited for together.
        threads = 1 if record.settings.max_jobs else THREADS
        with held(record.path / LOCK), ThreadPoolExecutor(threads) as pool:
            for place, one in enumerate(pool.map(handing.one, range(len(record.asked)))):
                if one is not None:
                    taken.append((place, one))
        if config.sweep.table and taken:
            ids = [job_now(one) for _, one in taken]
            record.table_job, record.table_error = submit_table(record.path, config, around, ids)
    except KeyboardInterrupt:
        sys.stdout.write(summary(record) + watch_line(record))
        sys.stderr.write(stopped_line(record))
        return INTERRUPTED
    finally:
        record.write()
    if config.sweep.table and not taken and any(entry.reused for entry in record.asked):
        write_tables(record.path, around)
    sys.stdout.write(summary(record) + watch_line(record) + table_line(record))
    sys.stdout.flush()
    refused = any(entry.error for entry in record.asked) or record.table_error is not None
    if config.wait.lower() != "true":
        return int(refused)
    codes = [stay_with(one, around).code for _, one in taken]
    codes.append(write_tables(record.path, around))
    return int(refused or any(codes))


def job_now(taken: Submitted) -> str:
    """The run's job: one that failed its preflight already may have been submitted again."""
    record = json.loads((taken.run_dir / "submission.json").read_text(encoding="utf-8"))
    return str(record["job_id"])
