"""Waiting until every worker, every rank and every side channel answers, and gives a token."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from jobs.engines.dialect import Dialect
from jobs.errors import HungError, JobError
from jobs.events import Journal
from jobs.probing import AskError, Http, greeting_of
from jobs.prometheus import parse_metrics
from jobs.run_spec import Plan, Worker
from jobs.startup import Progresses
from jobs.supervisor import Supervisor, Watched
from jobs.tokens import fill

POLL_S = 1.0
QUIET_S = 60.0
"""Past the budget, a start-up goes on as long as a missing worker wrote within this time ..."""

STRETCH = 3.0
"""... but never beyond this many budgets: a worker may also repeat one complaint for ever."""

FIRST_TOKEN_S = 300.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """The plan with this run's addresses, and how to talk to it."""

    plan: Plan
    dialect: Dialect
    http: Http
    tokens: dict[str, str]

    def url(self, worker: Worker) -> str:
        """Where a worker answers."""
        return fill(worker.url or "", self.tokens)

    @property
    def base_url(self) -> str:
        """Where clients talk."""
        return fill(self.plan.base_url, self.tokens)


async def wait_for_workers(
    deployment: Deployment, workers: list[Watched], supervisor: Supervisor, journal: Journal
) -> None:
    """Returns when all are ready; JobError names who is missing, what it lacks and last said."""
    plan = deployment.plan
    begun = time.monotonic()
    progress = Progresses(workers, deployment.dialect, journal, begun)
    lacks = dict.fromkeys((worker.name for worker in plan.workers), "has not been asked")

    async def settle(worker: Worker) -> None:
        while reason := await lacking(deployment, worker, supervisor):
            lacks[worker.name] = reason
            await asyncio.sleep(POLL_S / 2)
        del lacks[worker.name]
        after = time.monotonic() - begun
        journal.note(
            "ready", f"ready after {after:.1f} s", step=worker.name, after_s=round(after, 1)
        )

    tasks = [asyncio.create_task(settle(worker)) for worker in plan.workers]
    try:
        while lacks:
            done, _ = await asyncio.wait(tasks, timeout=POLL_S / 2)
            for task in done:
                task.result()
            now = time.monotonic()
            progress.look(now, list(lacks))
            if not lacks:  # the last one came just now: no budget was missed
                return
            budget = plan.budgets.start_s
            quiet = now - progress.wrote_at(lacks)
            if now - begun > budget and (quiet > QUIET_S or now - begun > STRETCH * budget):
                raise HungError(_too_late(now - begun, budget, lacks, progress))
            if stalled := _stalled(now, plan, lacks, progress):
                raise HungError(stalled)
    finally:
        for task in tasks:
            task.cancel()


def _stalled(now: float, plan: Plan, lacks: dict[str, str], progress: Progresses) -> str | None:
    """A worker whose whole endpoint made no progress for longer than its phase may take."""
    for name in lacks:
        own = progress.all[name]
        budget = plan.budgets.stall.get(f"{own.phase}_s")
        quiet = now - progress.moved_at(plan.endpoint_of(name))
        if budget is not None and quiet > budget:
            return (
                f"{own.watched.about} hangs in its start-up: no progress for {quiet:.0f} s at "
                f"{own} (budgets.stall.{own.phase}_s = {budget:.0f}); it lacks: {lacks[name]}; "
                f"last said: {own.last_line[:300]}; log: {own.watched.running.log}; what to try: "
                "look at what it waits for there; where that is only slow, raise this budget"
            )
    return None


def _too_late(after: float, budget: float, lacks: dict[str, str], progress: Progresses) -> str:
    lines = []
    for name, reason in lacks.items():
        own = progress.all[name]
        lines.append(
            f"{name}: {reason}; start-up at {own}; log {own.watched.running.log}; "
            f"last said: {own.last_line[:300]}"
        )
    return (
        f"{len(lacks)} of {len(progress.all)} workers are not ready after {after:.0f} s "
        f"(budgets.start_s = {budget:.0f}):\n  " + "\n  ".join(lines)
    )


async def lacking(deployment: Deployment, worker: Worker, supervisor: Supervisor) -> str | None:
    """What a worker still lacks; None when it is ready."""
    address = supervisor.around.nodes[worker.node].address
    for port in worker.side_channels:
        greeting = await greeting_of(address, port, deployment.dialect.side_channel_greeting_bytes)
        if greeting is None:
            return f"side channel {address}:{port} does not listen"
        if not deployment.dialect.is_side_channel(greeting):
            return (
                f"{address}:{port} should be its side channel, but what listens there does not "
                f"speak its protocol (first bytes {greeting!r}): another program has the port"
            )
    if worker.url is None:
        return None
    plan, dialect, http = deployment.plan, deployment.dialect, deployment.http
    url = deployment.url(worker)
    try:
        await http.text(url + dialect.health_path)
        models = dialect.served_models(await http.json(url + dialect.models_path))
        if plan.served_model not in models:
            return f"{url} serves {', '.join(models) or 'nothing'}, not {plan.served_model}"
        engines = dialect.engines(parse_metrics(await http.text(url + dialect.metrics_path)))
        ranks = plan.ranks_behind(worker)
        if len(engines) != ranks:
            return f"{len(engines)} of {ranks} ranks registered"
        await _first_tokens(deployment, url, ranks)
    except (AskError, ValueError) as error:
        return str(error)
    return None


async def _first_tokens(deployment: Deployment, url: str, ranks: int) -> None:
    """One token from every rank; the first may wait for kernels to be compiled."""
    dialect, plan = deployment.dialect, deployment.plan
    body = dialect.plain(plan.served_model, list(range(20, 36)), 1)
    target = url + dialect.completions_path
    answers = await asyncio.gather(
        *(
            deployment.http.post(target, body, FIRST_TOKEN_S, dialect.rank_headers(rank, ranks))
            for rank in range(ranks)
        )
    )
    for rank, payload in enumerate(answers):
        if not dialect.read_answer(payload).tops:
            raise ValueError(f"{target}: rank {rank} answered without a token")


async def wait_for_router(deployment: Deployment, journal: Journal) -> None:
    """Returns when the router is healthy and shows the model; JobError past budgets.router_s."""
    dialect, plan, url = deployment.dialect, deployment.plan, deployment.base_url
    begun = time.monotonic()
    last = "not asked yet"
    try:
        async with asyncio.timeout(plan.budgets.router_s):
            while True:
                try:
                    await deployment.http.text(url + dialect.health_path)
                    models = dialect.served_models(
                        await deployment.http.json(url + dialect.models_path)
                    )
                    if plan.served_model in models:
                        break
                    last = f"it shows {models}, not {plan.served_model}"
                except AskError as error:
                    last = str(error)
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise JobError(
            f"the router at {url} is not ready within budgets.router_s = "
            f"{plan.budgets.router_s:.0f} s; last: {last}; log: logs/router.log"
        ) from None
    journal.note("ready", f"answers at {url} after {time.monotonic() - begun:.1f} s", step="router")


async def first_token_through_router(deployment: Deployment) -> None:
    """One token as clients ask for it, where no canary has sent any; JobError without one."""
    dialect, plan = deployment.dialect, deployment.plan
    body = dialect.plain(plan.served_model, list(range(20, 36)), 1)
    url = deployment.base_url + dialect.completions_path
    try:
        try:
            payload = await deployment.http.post(url, body, FIRST_TOKEN_S)
        except AskError as error:
            if not dialect.is_first_contact_failure(str(error)):
                raise
            payload = await deployment.http.post(url, body, FIRST_TOKEN_S)
        answer = dialect.read_answer(payload)
    except (AskError, ValueError) as error:
        said = f"no token comes through the router: {error}; log: logs/router.log"
        raise JobError(said) from error
    if not answer.tops:
        raise JobError(f"{url} answered without a token; log: logs/router.log")
