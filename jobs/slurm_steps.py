"""Steps of this Slurm job as Slurm itself sees them, for the end of a run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.allocation import Ask, ask
from jobs.errors import JobError

NUMBERED = re.compile(r"^\d+\.\d+$")
SPECIAL_STEPS = 0xFFFFFFF0
"""From here on step numbers mean batch, extern, interactive (Slurm 24.11: slurm/slurm.h)."""
ANSWER_S = 1.5
"""The controller answers in milliseconds or is in trouble; the tear-down cannot wait for it."""


@dataclass(frozen=True, slots=True)
class SlurmSteps:
    """All numbered steps of one job; the step in which this driver runs is never meant.

    That is the batch step, or `own` where somebody started the driver with srun.
    """

    job_id: str
    own: str | None = None
    asker: Ask = ask

    async def terminate(self) -> bool:
        """TERM to every step in one call; False when the controller does not take it.

        Tried on Slurm 24.11: without --batch and --full, a signal other than KILL to a bare job
        id reaches all steps and not the batch step, and the steps' tasks get their time to end.
        A TERM to srun instead would make it KILL its step at once.
        """
        if self.own is not None:
            steps = await self.living()
            told = steps and await self._tell("scancel", "--signal=TERM", *steps)
            return bool(told) or steps == []
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
        return [it for it in answer.split() if NUMBERED.match(it) and it != self.own]

    async def inhabited(self, steps: Sequence[str]) -> list[str] | None:
        """Those of `steps` in which some node still has a process; None when nobody can say.

        The controller goes on listing a step that ended while it was away (seen with Slurm 24.11:
        for as long as the job lasts); sstat asks the nodes themselves.
        """
        command = ["sstat", "--pidformat", "--noheader", "--parsable2", f"--jobs={','.join(steps)}"]
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self.asker(command)
        except (JobError, TimeoutError):
            return None
        rows = [line.split("|") for line in answer.splitlines()]
        told = {row[0]: False for row in rows if len(row) == 3}
        for step, _node, pids in (row for row in rows if len(row) == 3):
            told[step] |= bool(pids.strip())
        return [step for step in steps if told.get(step, True)]

    async def _tell(self, *command: str) -> bool:
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.asker(list(command))
        except (JobError, TimeoutError):
            return False
        return True


def own_step(environ: Mapping[str, str]) -> str | None:
    """The numbered step that this process runs in, like 77.0; None in a batch script."""
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    if not step.isdecimal() or int(step) >= SPECIAL_STEPS:
        return None
    return f"{job}.{step}"


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
