"""Beside all phases: logs stay below their limit, and the run directory must stay where it is."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from jobs.errors import JobError
from jobs.events import Journal
from jobs.logs import LogLimit
from jobs.supervisor import Supervisor, Watched

EVERY_S = 0.5
MB = 1e6
FULL_BYTES = 256 * 1024

log = logging.getLogger("jobs")


async def keep_house(
    supervisor: Supervisor, limit_mb: float, journal: Journal, death: asyncio.Future[JobError]
) -> None:
    """Runs until cancelled; `death` gets an error when the run directory is gone."""
    limits: dict[str, LogLimit] = {}
    run_dir = supervisor.around.run_dir
    while True:
        await asyncio.sleep(EVERY_S)
        if not run_dir.run_json.exists() and not death.done():
            death.set_result(JobError(gone(run_dir.path)))
        for watched in supervisor.watched():
            path = watched.running.log
            limit = limits.setdefault(watched.step.name, LogLimit(path, limit_mb * MB))
            try:
                cut = await asyncio.to_thread(limit.look)
            except OSError as error:
                log.warning("%s cannot be cut: %s", path, error)
                continue
            if cut:
                _tell(watched, limit, limit_mb, journal)


def gone(folder: Path) -> str:
    """What is said when the run directory is not there any more, whoever notices first."""
    return (
        f"the run directory {folder} was removed or moved while the run used it: nothing can be "
        "written any more"
    )


def disk_trouble(folder: Path) -> str | None:
    """A full or read-only file system under the run directory, in words: logs cannot tell it."""
    try:
        seen = os.statvfs(folder)
    except FileNotFoundError:
        return f"likely cause: {gone(folder)}"
    except OSError as error:
        return f"likely cause: {folder} cannot be looked at any more: {error.strerror}"
    if seen.f_flag & os.ST_RDONLY:
        return f"likely cause: the file system of {folder} is read-only; what to try: ask the site"
    if seen.f_bavail * seen.f_frsize < FULL_BYTES:
        return (
            f"likely cause: the file system of {folder} is full; what to try: free some space "
            "there, or name another cluster.results_dir"
        )
    return None


def _tell(watched: Watched, limit: LogLimit, limit_mb: float, journal: Journal) -> None:
    watched.running.offset = 0
    if limit.cuts == 1:
        journal.warn(
            "log_cut",
            f"its log grew beyond a third of cluster.log_limit_mb = {limit_mb:g}: the beginning is "
            f"kept in {limit.first.name}, the latest in {limit.before.name} and {watched.step.log}",
            step=watched.step.name,
        )
