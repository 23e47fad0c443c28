"""Stopping every process of a run at once, and looking afterwards whether anything is left."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence

from jobs.process_tree import members, signal_each, signal_groups
from jobs.records import Teardown
from jobs.slurm_steps import SlurmSteps

POLL_S = 0.1
TERM_SHARE = 0.6
"""Of the budget, the time from TERM to KILL; the rest is for KILL and for looking."""
END_SHARE = 0.95


async def tear_down(
    leaders: Sequence[int], mark: str, budget_s: float, slurm: SlurmSteps | None = None
) -> Teardown:
    """Stops every step at once: TERM, after 60 % of the budget KILL; what was seen to be left.

    On Slurm the steps' tasks are told through the controller, since a dying srun would take them
    along at once; where the controller is silent, srun is told after all. Waiting is one loop
    over /proc, so its time does not depend on how many there are.
    """
    begun = time.monotonic()
    told = len(members(leaders, mark))
    if slurm is None or not await slurm.terminate():
        signal_groups(leaders, signal.SIGTERM)
        others = [p for p in members(leaders, mark) if p.group not in leaders]
        signal_each(others, signal.SIGTERM)
    ended = await _until(lambda: not members(leaders, mark), begun + TERM_SHARE * budget_s)
    killed = 0 if ended else len(members(leaders, mark))
    if not ended:
        if slurm is not None:
            await slurm.kill()
            await _until(lambda: not members(leaders, mark), time.monotonic() + 1.0)
        await _kill(leaders, mark, begun + END_SHARE * budget_s)
    left = [f"pid {p.pid} (group {p.group})" for p in members(leaders, mark)]
    looked = ["process table"]
    if slurm is not None:
        steps = await _steps_left(slurm, begun + END_SHARE * budget_s)
        looked.append("squeue --steps" if steps is not None else "squeue did not answer")
        left += [f"step {step}" for step in steps or []]
    return Teardown(
        seconds=round(time.monotonic() - begun, 2),
        processes=told,
        killed=killed,
        survivors=left,
        looked_at=", ".join(looked),
    )


async def _kill(leaders: Sequence[int], mark: str, until: float) -> None:
    """KILL, again and again: a process may have begun another one meanwhile."""
    while left := members(leaders, mark):
        signal_each(left, signal.SIGKILL)
        if time.monotonic() > until:
            return
        await asyncio.sleep(POLL_S)


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
