"""A sweep that is only looked at: each job as it would be submitted, and what they sum up to."""

from __future__ import annotations

import sys
from pathlib import Path

from launcher.launching import preview
from launcher.site import site_problems, surroundings
from launcher.sweep.checks import Sweep
from launcher.sweep.jobs import job_of, record_of
from launcher.sweep.record import summary


def preview_sweep(sweep: Sweep) -> None:
    """On stdout: each job as it would be submitted, then the summary; in JSON a document a job."""
    for group in sweep.groups:
        job, config = job_of(sweep, group), group.plan.config
        around = surroundings(config, sys.executable)
        missing = [
            f"{text} (a submission would stop here)" for text in site_problems(config, around)
        ]
        preview(job, [*job.warnings, *missing])
    if sweep.first.dry_run.lower() == "json":
        return
    record = record_of(sweep, Path())
    for entry in record.asked:
        entry.planned = [point.name for point in entry.group.plan.points]
    sys.stdout.write("\n" + summary(record))
