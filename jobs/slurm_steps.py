"""Steps of this Slurm job as Slurm itself sees them, for the end of a run."""

from __future__ import annotations

import asyncio
import re

from jobs.allocation import Ask, ask
from jobs.errors import JobError

NUMBERED = re.compile(r"^\d+\.\d+$")


async def live_steps(job_id: str, asker: Ask = ask) -> list[str]:
    """Ids like 77.3 of numbered steps (the batch step, which is this driver, is not one)."""
    answer = await asker(["squeue", "--steps", f"--jobs={job_id}", "--noheader", "--format=%i"])
    return [word for word in answer.split() if NUMBERED.match(word)]


async def kill_steps(job_id: str, asker: Ask = ask) -> None:
    """KILLs every numbered step; a signal to the bare job id would hit this driver as well."""
    try:
        async with asyncio.timeout(1.0):
            steps = await live_steps(job_id, asker)
            if steps:
                await asker(["scancel", "--signal=KILL", *steps])
    except (JobError, TimeoutError):
        return
