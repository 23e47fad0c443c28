"""When a tear-down asks, kills and gives up, on a clock of the test's own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from jobs.process_tree import Process
from jobs.records import Teardown
from jobs.slurm_steps import ANSWER_S, SlurmSteps
from jobs.teardown import END_SHARE, POLL_S, TERM_SHARE, tear_down

BUDGET_S = 12.0
LEADERS = (10, 20, 30)
CHILD = Process(11, 10, 11, 11, 0)
"""It has a group and a session of its own."""
EVERYBODY = (*(Process(pid, 1, pid, pid, 0) for pid in LEADERS), CHILD)


class World:
    """Processes that hear signals and a clock that only sleeping moves."""

    def __init__(self, ended_by: set[signal.Signals], slow: float = 0.0) -> None:
        self.now, self._slow = 0.0, slow
        self._ended_by = ended_by
        self.alive = list(EVERYBODY)
        self.heard: list[tuple[float, str, int]] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def members(self, *_: object) -> list[Process]:
        self.now += self._slow
        return list(self.alive)

    def still(self, processes: Iterable[Process]) -> list[Process]:
        return [process for process in processes if process in self.alive]

    def signal_groups(self, leaders: Iterable[int], number: signal.Signals) -> None:
        self.signal_each([p for p in self.alive if p.group in tuple(leaders)], number)

    def signal_each(self, processes: Iterable[Process], number: signal.Signals) -> None:
        for process in list(processes):
            self.heard.append((self.now, number.name, process.pid))
            if number in self._ended_by and process in self.alive:
                self.alive.remove(process)

    def told(self, number: signal.Signals) -> dict[int, float]:
        """When each process was first sent `number`."""
        return {pid: at for at, name, pid in reversed(self.heard) if name == number.name}


@dataclass(frozen=True)
class SlowSlurm(SlurmSteps):
    """A controller that takes each order only after the longest wait there is."""

    world: World = field(default_factory=lambda: World(set()))

    async def terminate(self) -> bool:
        return True

    async def kill(self) -> bool:
        self.world.now += 2 * ANSWER_S
        return False

    async def living(self) -> list[str] | None:
        self.world.now += ANSWER_S
        return []


def torn_down(
    world: World, monkeypatch: pytest.MonkeyPatch, slurm: SlurmSteps | None = None
) -> Teardown:
    edges = {"create_task": asyncio.create_task, "timeout": asyncio.timeout, "sleep": world.sleep}
    monkeypatch.setattr("jobs.teardown.time", SimpleNamespace(monotonic=world.monotonic))
    monkeypatch.setattr("jobs.teardown.asyncio", SimpleNamespace(**edges))
    for name in ("members", "still", "signal_groups", "signal_each"):
        monkeypatch.setattr(f"jobs.teardown.{name}", getattr(world, name))
    return asyncio.run(tear_down(LEADERS, "mark", BUDGET_S, slurm))


EVERY_PID = {process.pid for process in EVERYBODY}


def test_those_that_obey_are_asked_at_once_and_never_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World({signal.SIGTERM})
    torn = torn_down(world, monkeypatch)
    assert world.told(signal.SIGTERM) == dict.fromkeys(EVERY_PID, 0.0)
    assert world.told(signal.SIGKILL) == {}
    assert (torn.processes, torn.killed, torn.survivors, torn.seconds) == (4, 0, [], 0.0)


def test_the_deaf_are_asked_at_once_and_killed_after_half_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World({signal.SIGKILL})
    torn = torn_down(world, monkeypatch)
    assert world.told(signal.SIGTERM) == dict.fromkeys(EVERY_PID, 0.0)
    killed = world.told(signal.SIGKILL)
    assert killed.keys() == EVERY_PID
    grace_s = TERM_SHARE * BUDGET_S
    assert all(grace_s <= at <= grace_s + 2 * POLL_S for at in killed.values())
    assert (torn.processes, torn.killed, torn.survivors) == (4, 4, [])
    assert torn.seconds <= grace_s + 2 * POLL_S


def test_what_kill_does_not_end_is_named_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(set(), slow=0.3)
    torn = torn_down(world, monkeypatch)
    assert {line.split()[1] for line in torn.survivors} == {str(pid) for pid in EVERY_PID}
    kills = [at for at, name, pid in world.heard if (name, pid) == ("SIGKILL", CHILD.pid)]
    assert len(kills) > 1, "again and again"
    assert END_SHARE * BUDGET_S <= world.now < BUDGET_S


def test_a_slow_controller_keeps_kill_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({signal.SIGKILL})
    torn = torn_down(world, monkeypatch, SlowSlurm("77", world=world))
    assert torn.survivors == []
    assert world.told(signal.SIGKILL).keys() == EVERY_PID
    assert torn.seconds < BUDGET_S
