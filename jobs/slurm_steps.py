"""Steps of this Slurm job as Slurm itself sees them, for the end of a run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.allocation import Ask, ask
from jobs.errors import JobError

NUMBERED = re.compile(r"^\d+\.\d+$")
ANSWER_S = 1.5
"""The controller answers in milliseconds or is in trouble; the tear-down cannot wait for it."""


@dataclass(frozen=True, slots=True)
class SlurmSteps:
    """All numbered steps of one job; the batch step, which is this driver, is never meant."""

    job_id: str
    asker: Ask = ask

    async def terminate(self) -> bool:
        """TERM to every step in one call; False when the controller does not take it.

        Tried on Slurm 24.11: without --batch and --full, a signal other than KILL to a bare job
        id reaches all steps and not the batch step, and the steps' tasks get their time to end.
        A TERM to srun instead would make it KILL its step at once.
        """
        return await self._tell("scancel", "--signal=TERM", self.job_id)

    async def kill(self) -> bool:
        """KILL by step ids: KILL to the bare job id would hit this driver as well."""
        steps = await self.living()
        return bool(steps) and await self._tell("scancel", "--signal=KILL", *(steps or []))

    async def living(self) -> list[str] | None:
        """Ids like 77.3 that Slurm still lists; None when it does not answer."""
        command = ["squeue", "--steps", f"--jobs={self.job_id}", "--noheader", "--format=%i"]
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self.asker(command)
        except (JobError, TimeoutError):
            return None
        return [word for word in answer.split() if NUMBERED.match(word)]

    async def _tell(self, *command: str) -> bool:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.asker(list(command))
        except (JobError, TimeoutError):
            return False
        return True


NODE = re.compile(r"NodeName=(\S+).*? State=(\S+)(?:.*? Reason=(.*?)(?: \[|$))?")
TROUBLE = ("DOWN", "FAIL", "NOT_RESPONDING", "DRAIN", "ERROR", "UNKNOWN", "POWER")


async def troubled_nodes(names: Sequence[str], asker: Ask = ask) -> list[str]:
    """What Slurm says of those nodes that are not well; empty as well when it does not answer."""
    command = ["scontrol", "--oneliner", "show", "node", ",".join(names)]
    try:
        async with asyncio.timeout(1.0):
            answer = await asker(command)
    except (JobError, TimeoutError):
        return []
    return [
        f"Slurm says that node {found[1]} is {found[2]}" + (f" ({found[3]})" if found[3] else "")
        for found in NODE.finditer(answer)
        if any(word in found[2] for word in TROUBLE)
    ]
