"""Hung, not dead: engines, router and points that live but do not move on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from jobs.engines.dialect import Load
from jobs.errors import HungError, JobError
from jobs.events import Journal
from jobs.probing import AskError, Http, accepts_tcp
from jobs.process_tree import stopped
from jobs.rendezvous import Deployment
from jobs.run_spec import Worker
from jobs.supervisor import Watched

LOOK_S = 5.0
REFUSED_S = 4.0
"""A listener that is gone does not come back; one look may still fall into a restart of it."""

NOTHING: dict[str, Load] = {}


@dataclass(slots=True)
class Target:
    """One process that must answer, and what was last seen of it."""

    watched: Watched
    answered_at: float
    refused_at: float | None = None
    said: str = ""
    loads: dict[str, Load] = field(default_factory=dict)
    moved_at: dict[str, float] = field(default_factory=dict)

    def take(self, now: float, loads: dict[str, Load]) -> None:
        """An answer: which engines moved since the last one. An engine without running requests
        has nothing to move for."""
        self.answered_at, self.refused_at, self.said = now, None, ""
        for engine, load in loads.items():
            before = self.loads.get(engine)
            if before is None or load.tokens != before.tokens or not load.running:
                self.moved_at[engine] = now
        self.loads = loads

    def miss(self, now: float, said: str, refused: bool) -> None:
        """No good answer."""
        self.said = said
        self.refused_at = (self.refused_at or now) if refused else None

    @property
    def tokens(self) -> float:
        """All tokens its engines have read or made."""
        return sum(load.tokens for load in self.loads.values())

    def __str__(self) -> str:
        running = sum(load.running for load in self.loads.values())
        waiting = sum(load.waiting for load in self.loads.values())
        seen = f"{running:.0f} running, {waiting:.0f} waiting, {self.tokens:.0f} tokens so far"
        return seen if self.loads else "no counters seen"


class HangWatch:
    """Looks at every worker and the router until cancelled; `death` gets a HungError."""

    def __init__(
        self,
        deployment: Deployment,
        http: Http,
        watched: dict[str, Watched],
        journal: Journal,
        death: asyncio.Future[JobError],
    ) -> None:
        self._deployment = deployment
        self._http = http
        self._journal = journal
        self._death = death
        budgets = deployment.plan.budgets
        self._no_answer_s, self._no_token_s = budgets.no_answer_s, budgets.no_token_s
        self._every_s = min(LOOK_S, self._no_answer_s / 4, self._no_token_s / 4)
        now = time.monotonic()
        self._targets = {name: Target(it, now) for name, it in watched.items()}
        self._expected_since: float | None = None
        self._tokens, self._token_at = 0.0, now

    @contextmanager
    def expecting_tokens(self) -> Iterator[None]:
        """While this lasts, requests are under way: some engine must move on."""
        self._expected_since = self._token_at = time.monotonic()
        try:
            yield
        finally:
            self._expected_since = None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """The watch runs while this lasts."""
        tasks = [asyncio.create_task(self._look(name)) for name in self._targets]
        tasks.append(asyncio.create_task(self._judge()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _look(self, name: str) -> None:
        """One target, again and again; a slow one holds up no other."""
        target, ask = self._targets[name], self._question(name)
        while True:
            try:
                loads = await ask()
            except AskError as error:
                target.miss(time.monotonic(), str(error), error.refused)
            else:
                target.take(time.monotonic(), loads)
            await asyncio.sleep(self._every_s)

    def _question(self, name: str) -> Callable[[], Awaitable[dict[str, Load]]]:
        """How a target is asked: an engine's metrics, a headless one's side channel, the router."""
        deployment = self._deployment
        dialect, http = deployment.dialect, self._http
        patience = max(2.0, min(10.0, self._no_answer_s))
        worker = next((it for it in deployment.plan.workers if it.name == name), None)

        async def metrics() -> dict[str, Load]:
            url = deployment.url(worker) if worker else ""
            return dialect.loads(await http.text(url + dialect.metrics_path, patience))

        async def router() -> dict[str, Load]:
            await http.text(deployment.base_url + dialect.health_path, patience)
            return NOTHING

        async def side_channel() -> dict[str, Load]:
            await self._touch(worker, patience)
            return NOTHING

        if worker is None:
            return router
        return metrics if worker.url else side_channel

    async def _touch(self, worker: Worker | None, patience: float) -> None:
        for port in worker.side_channels[:1] if worker else []:
            address = self._deployment.tokens[f"node{worker.node}.address"] if worker else ""
            if not await accepts_tcp(address, port, patience):
                raise AskError(f"side channel {address}:{port} does not listen")

    async def _judge(self) -> None:
        while True:
            await asyncio.sleep(self._every_s / 2)
            now = time.monotonic()
            tokens = sum(target.tokens for target in self._targets.values())
            if tokens != self._tokens:
                self._tokens, self._token_at = tokens, now
            found = self._hung_target(now) or self._silent_point(now)
            if found and not self._death.done():
                name, text = found
                self._journal.note("hung", text, step=name)
                self._death.set_result(HungError(text))
                return

    def _hung_target(self, now: float) -> tuple[str, str] | None:
        for name, target in self._targets.items():
            if reason := self._reason(target, now):
                return name, self._paragraph(target, reason)
        return None

    def _reason(self, target: Target, now: float) -> str | None:
        limit = f"(budgets.no_answer_s = {self._no_answer_s:g})"
        silent = now - target.answered_at
        refused = target.refused_at is not None and now - target.refused_at > REFUSED_S
        if refused or (target.refused_at is not None and silent > self._no_answer_s):
            return f"lives, but nothing listens at its port any more: {target.said}"
        if silent > self._no_answer_s:
            return f"has not answered for {silent:.0f} s {limit}: {target.said or 'still waiting'}"
        for engine, load in target.loads.items():
            still = now - target.moved_at[engine]
            if load.running and still > self._no_answer_s:
                return (
                    f"answers, but its engine {engine} has made no token for {still:.0f} s "
                    f"{limit} with {load.running:.0f} requests running"
                )
        return None

    def _paragraph(self, target: Target, reason: str) -> str:
        watched = target.watched
        halted = stopped(watched.running.pid)
        hint = f"; its process {halted} is halted (SIGSTOP)" if halted else ""
        return (
            f"{watched.about} {reason}, during {self._journal.phase}; last seen: {target}{hint}; "
            f"log: {watched.running.log}; what to try: its last lines, `py-spy dump` of its "
            "process, and whether its node answers at all"
        )

    def _silent_point(self, now: float) -> tuple[str | None, str] | None:
        """Requests are under way, but no engine has read or made a token for too long."""
        if self._expected_since is None:
            return None
        silent = now - self._token_at
        if silent <= self._no_token_s:
            return None
        each = "; ".join(f"{name}: {target}" for name, target in self._targets.items())
        return None, (
            f"no token from any engine for {silent:.0f} s during {self._journal.phase} "
            f"(budgets.no_token_s = {self._no_token_s:g}) while requests are under way; last seen: "
            f"{each}; what to try: an engine with running requests hangs, one without is not "
            "reached (router, client)"
        )


async def unreachable(deployment: Deployment, watched: dict[str, Watched]) -> list[str]:
    """Workers at whose ports nothing listens now: where several are struck at once, the process
    that ends first is often only a peer of the one whose node is gone."""

    async def listens(worker: Worker) -> bool:
        parts = urlsplit(deployment.url(worker)) if worker.url else None
        address = deployment.tokens[f"node{worker.node}.address"]
        port = parts.port if parts else next(iter(worker.side_channels), None)
        return port is None or await accepts_tcp(address, port, 0.8)

    workers = deployment.plan.workers
    answers = await asyncio.gather(*(listens(worker) for worker in workers))
    return [
        watched[worker.name].about
        for worker, answer in zip(workers, answers, strict=True)
        if not answer and worker.name in watched
    ]
