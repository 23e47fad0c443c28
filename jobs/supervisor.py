"""Watching every process from start to tear-down: the first unexpected exit ends the run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobs.allocation import Node
from jobs.blame import Log, explain
from jobs.causes import exit_text
from jobs.engines.dialect import Dialect
from jobs.errors import JobError
from jobs.events import Journal
from jobs.logs import last_lines
from jobs.process_tree import has_group
from jobs.processes import Guard, Running, start
from jobs.records import Teardown
from jobs.run_spec import Step
from jobs.slurm_steps import SlurmSteps
from jobs.step_creation import LONGEST_PAUSE_S, PATIENCE_S, never_began
from jobs.store import RunDir
from jobs.teardown import tear_down
from jobs.tokens import fill


class ProcessDiedError(JobError):
    """A process that should have lived; the text has everything needed to look further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every step of this run has in common."""

    run_dir: RunDir
    nodes: list[Node]
    tokens: Mapping[str, str]
    env: Mapping[str, str]
    secret: str
    mark: str
    dialect: Dialect


@dataclass(slots=True, eq=False)
class Watched:
    """A running step, and whether its end would be a failure."""

    step: Step
    role: str
    running: Running
    about: str
    """Step, role and node, for messages."""
    should_live: bool = True
    may_end_well: bool = False
    """Whether ending with exit code 0 is right at any time; any other end is a failure."""
    ended: asyncio.Future[int] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Gets the exit code; a step that could not begin is started again first."""

    async def wait(self) -> int:
        """Its exit code, once it ends for good."""
        return await asyncio.shield(self.ended)


class Supervisor:
    """Starts steps, watches them, stops them all.

    `death` gets the error of the first process that ended without leave; race a phase
    against it.
    """

    def __init__(
        self,
        around: Surroundings,
        journal: Journal,
        death: asyncio.Future[JobError],
    ) -> None:
        self.around = around
        self._journal = journal
        self._watched: list[Watched] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._guard = Guard(around.mark)
        self._guarded = False
        self._stopping = False
        self.death = death
        self.first_dead: tuple[Watched, int] | None = None

    async def start(self, step: Step, role: str, may_end_well: bool = False) -> Watched:
        """Starts one step of the plan, its tokens filled in."""
        if not self._guarded:
            self._guarded = True
            await self._guard.begin()
        command = [fill(word, self.around.tokens) for word in step.command]
        log = self.around.run_dir.logs / Path(step.log).name
        running = await start(step.name, command, self.around.env, log)
        node = self.around.nodes[step.node]
        about = f"{step.name} ({role}) on node {node.name} ({node.address})"
        watched = Watched(step, role, running, about, may_end_well=may_end_well)
        self._watched.append(watched)
        await self._guard.add(running.pid)
        text = f"{role} started on {node.name} ({node.address}), pid {running.pid}"
        self._journal.note("started", text, step=step.name, pid=running.pid, node=node.name)
        task = asyncio.create_task(self._watch(watched))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)
        return watched

    def watched(self) -> list[Watched]:
        """All steps that were started and are not known to be gone."""
        return list(self._watched)

    async def _watch(self, watched: Watched) -> None:
        code = await watched.running.process.wait()
        since = time.monotonic()
        while code and await self._started_again(watched, since):
            code = await watched.running.process.wait()
        watched.ended.set_result(code)
        if code == 0 and watched.may_end_well:
            watched.should_live = False
        if not watched.should_live and not has_group(watched.running.pid):
            # The number may come back as somebody else's: it is not ours to signal any more.
            self._watched.remove(watched)
            await self._guard.drop(watched.running.pid)
        if watched.should_live and not self.death.done():
            self._journal.note(
                "died", f"ended with {exit_text(code)}", step=watched.step.name, rc=code
            )
            self.death.set_result(ProcessDiedError(self.describe(watched, code)))

    async def _started_again(self, watched: Watched, since: float) -> bool:
        """Whether a step that the controller's absence kept from beginning was started anew."""
        step, old = watched.step, watched.running
        waited = time.monotonic() - since
        if self._stopping or waited > PATIENCE_S or not never_began(old.log, old.offset, waited):
            return False
        pause = min(2.0 + waited, LONGEST_PAUSE_S)
        text = f"srun found no controller, or one just back; started again in {pause:.0f} s"
        self._journal.warn("controller", text, step=step.name)
        await asyncio.sleep(pause)
        if self._stopping:
            return False
        command = [fill(word, self.around.tokens) for word in step.command]
        watched.running = await start(step.name, command, self.around.env, old.log)
        await self._guard.drop(old.pid)
        await self._guard.add(watched.running.pid)
        pid = watched.running.pid
        self._journal.note("started", f"again, pid {pid}", step=step.name, pid=pid)
        return True

    def describe(self, watched: Watched, code: int) -> str:
        """One sentence: who, where, how, in which phase; `explain` tells the rest."""
        self.first_dead = self.first_dead or (watched, code)
        return f"{watched.about} ended with {exit_text(code)} during {self._journal.phase}"

    def explain(self) -> str:
        """Why the run failed, by all its logs: likely cause, what to try, the last lines of the
        process that ended first. Empty when nothing tells."""
        dead = self.first_dead
        logs = [
            Log(it.step.name, it.running.log, it.running.offset)
            for it in dict.fromkeys([*([dead[0]] if dead else []), *self._watched])
        ]
        who = (dead[0].step.name, dead[1]) if dead else None
        parts = [explain(logs, self.around.dialect.causes, who)]
        if dead:
            lines = self.tail(dead[0])
            parts.append(f"log: {dead[0].running.log}")
            parts.append("last lines:\n  " + "\n  ".join(lines) if lines else "its log is empty")
        text = "; ".join(part for part in parts if part)
        return text.replace(self.around.secret, "***")

    def tail(self, watched: Watched, count: int = 20) -> list[str]:
        """Last telling lines of a step's log, the run's key blotted out."""
        running = watched.running
        lines = last_lines(running.log, running.offset, self.around.dialect.is_noise, count)
        return [line.replace(self.around.secret, "***") for line in lines]

    async def stop_all(self, budget_s: float, slurm: SlurmSteps | None = None) -> Teardown:
        """Stops every step within the budget; what was seen to be left (nothing is good)."""
        self._stopping = True
        for watched in self._watched:
            watched.should_live = False
        leaders = [watched.running.pid for watched in self._watched]
        found = Teardown(looked_at="nothing was started")
        if self._guarded:
            found = await tear_down(leaders, self.around.mark, budget_s, slurm)
        for task in list(self._watchers):
            task.cancel()
        await self._guard.end()
        return found
