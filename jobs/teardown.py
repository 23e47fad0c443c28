"""Stopping every process of a run at once, and looking afterwards whether anything is left."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jobs.process_tree import Process, members, signal_each, signal_groups, still
from jobs.records import Teardown
from jobs.slurm_steps import SlurmSteps

POLL_S = 0.1
TERM_SHARE = 0.5
"""Of the budget, the time from TERM to KILL; the rest is for KILL and for looking."""
END_SHARE = 0.7
"""Of the budget, the time in which processes are killed and steps leave Slurm's list."""
ASK_SHARE = 0.9
"""Of the budget, when Slurm is asked no more: a dead node keeps its answers waiting."""
LISTED_S = 3.0
"""How long Slurm may go on listing steps after their end; those of a dead node it lists longer."""


async def tear_down(
    leaders: Sequence[int], mark: str, budget_s: float, slurm: SlurmSteps | None = None
) -> Teardown:
    """Stops every step at once: TERM, after half of the budget KILL; what was seen to be left.

    On Slurm the steps' tasks are told through the controller, since a dying srun would take them
    along at once; where the controller is silent, srun is told after all. Waiting is one loop
    over /proc, so its time does not depend on how many there are.
    """
    begun = time.monotonic()
    crowd = Crowd(leaders, mark)
    told = len(crowd.look())
    if slurm is None or not await slurm.terminate():
        signal_groups(leaders, signal.SIGTERM)
        signal_groups(leaders, signal.SIGCONT)  # a halted process could not obey
        signal_each((p for p in crowd.known if p.group not in leaders), signal.SIGTERM)
    ended = await _until(crowd.is_gone, begun + TERM_SHARE * budget_s)
    killed = len(crowd.known)
    killing = None
    if not ended:
        if slurm is not None:  # asked beside: a slow controller must not keep KILL from anyone
            killing = asyncio.create_task(slurm.kill())
            await _until(crowd.is_gone, time.monotonic() + 1.0)
        await _kill(crowd, begun + END_SHARE * budget_s)
    left = [f"pid {p.pid} (group {p.group})" for p in crowd.known]
    looked = ["process table"]
    if slurm is not None:
        listed, until = Listed(), min(begun + END_SHARE * budget_s, time.monotonic() + LISTED_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.1, begun + ASK_SHARE * budget_s - time.monotonic())):
                if killing is not None:
                    await killing
                await listed.look(slurm, until)
        looked += listed.looked or ["squeue did not answer"]
        left += [f"step {step}" for step in listed.steps]
    return Teardown(
        seconds=round(time.monotonic() - begun, 2),
        processes=told,
        killed=killed,
        survivors=left,
        looked_at=", ".join(looked),
    )


class Crowd:
    """The run's processes on this node. Asking whether they are gone looks at the known ones
    first and at all of /proc only once those are gone: cheap with many processes."""

    def __init__(self, leaders: Sequence[int], mark: str) -> None:
        self._leaders, self._mark = leaders, mark
        self._unmarked: set[tuple[int, int]] = set()
        self.known: list[Process] = []

    def look(self) -> list[Process]:
        """All that live now, by looking at every process."""
        self.known = members(self._leaders, self._mark, self._unmarked)
        return self.known

    def is_gone(self) -> bool:
        """Whether nobody is left; else `known` are those."""
        self.known = still(self.known)
        return not self.known and not self.look()


@dataclass(slots=True)
class Listed:
    """Steps that still have a process, as far as Slurm could say in its time."""

    steps: list[str] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)

    async def look(self, slurm: SlurmSteps, until: float) -> None:
        """Asks the controller, and the nodes for what it still lists."""
        steps = await _steps_left(slurm, until)
        if steps is None:
            return
        self.steps, self.looked = steps, ["squeue --steps"]
        if steps and (inhabited := await slurm.inhabited(steps)) is not None:
            empty = [step for step in steps if step not in inhabited]
            also = f" (without a process, but listed by squeue: {', '.join(empty)})"
            self.looked.append("sstat --pidformat" + (also if empty else ""))
            self.steps = inhabited


async def _kill(crowd: Crowd, until: float) -> None:
    """KILL, at least once, and again: a process may have begun another one meanwhile."""
    while True:
        signal_each(crowd.known, signal.SIGKILL)
        if await _until(crowd.is_gone, time.monotonic() + 5 * POLL_S):
            return
        if time.monotonic() >= until:
            return


async def _steps_left(slurm: SlurmSteps, until: float) -> list[str] | None:
    """Steps that Slurm still lists at the end; one KILL for those that outlive their srun."""
    steps = await slurm.living()
    if steps:
        await slurm.kill()
    while steps and time.monotonic() < until:
        await asyncio.sleep(2 * POLL_S)
        steps = await slurm.living()
    return steps


async def _until(condition: Callable[[], bool], until: float) -> bool:
    while not condition():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(POLL_S)
    return True
