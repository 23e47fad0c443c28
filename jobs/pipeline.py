"""The run: read this to know what happens on the allocation, and in which order."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress

from jobs.accuracy import check_questions, measure_accuracy
from jobs.allocation import Allocation, local_allocation, slurm_allocation
from jobs.attempts import Attempt, end_attempt, was_put_back
from jobs.bench import Sweep
from jobs.canary import run_canary
from jobs.deployment import settle
from jobs.engines import dialect_of
from jobs.environment import step_environment
from jobs.errors import JobError
from jobs.events import Journal
from jobs.followers import hand_on
from jobs.hang_watch import HangWatch, unreachable
from jobs.housekeeping import disk_trouble, keep_house
from jobs.node_caches import remove_caches
from jobs.node_checks import UnfitNodesError, check_nodes
from jobs.outcome import Ending, await_end, listen_for_stop, write_outcome
from jobs.probing import Http
from jobs.records import Outcome, Teardown
from jobs.redaction import Redactor, secret_values
from jobs.rendezvous import (
    Deployment,
    first_token_through_router,
    wait_for_router,
    wait_for_workers,
)
from jobs.resubmit import NotResubmittedError, resubmit
from jobs.run_spec import RunSpec
from jobs.sampling import Sampler, targets
from jobs.series_keep import keep_series
from jobs.slurm_ask import ask_slurm
from jobs.slurm_steps import SlurmSteps, own_step, troubled_nodes
from jobs.staging import stage_model
from jobs.store import RunDir, write_json, write_text
from jobs.supervisor import Supervisor, Surroundings, Watched
from jobs.tokens import token_values

RESUBMITTED = "resubmitted"


async def run_job(
    run: RunSpec, run_dir: RunDir, environ: Mapping[str, str], attempt: Attempt
) -> Outcome | None:
    """The whole run with its tear-down; whatever happens, outcome.json is written at the end.

    Returns None without one when Slurm has put the job back, or when the run was submitted again
    without an unfit node: the next attempt goes on.
    """
    redact = Redactor([run_key(run_dir), *secret_values(environ)])
    journal = Journal(run_dir.events, redact)
    _tell_attempt(attempt, journal)
    stopped = listen_for_stop()
    death: asyncio.Future[JobError] = asyncio.get_running_loop().create_future()
    job = Job(run, run_dir, environ, journal, death)
    work = asyncio.create_task(job.work())
    ending = await await_end(work, death, stopped, lambda: job.allocation)
    phase = journal.phase
    if ending.status == "failed":
        ending = Ending(ending.status, "; ".join([ending.cause, *await job.reasons()]))
    ending = Ending(ending.status, redact(ending.cause))
    if ending.cause:
        journal.note("ending", f"{ending.status}: {ending.cause}", status=ending.status)
    asking = asyncio.create_task(was_put_back(attempt))
    journal.enter("teardown", "stopping every process")
    torn = await job.stop()
    _tell_teardown(torn, journal)
    if torn.survivors:
        left = ", ".join(torn.survivors)
        ending = Ending(ending.status, f"{ending.cause} Still running: {left}".strip())
    if await asking and ending.status != "completed":
        journal.note("requeued", "Slurm has put the job back; the next attempt goes on")
        end_attempt(run_dir, attempt, "requeued", phase, ending.cause)
        return None
    if job.unfit and ending.status == "failed" and run.plan.preflight.on_bad_node == "exclude":
        ending = await _move_on(job, job.unfit, ending)
    if ending.status == RESUBMITTED:
        end_attempt(run_dir, attempt, ending.status, phase, ending.cause)
        return None
    outcome = write_outcome(run, run_dir, ending, phase, attempt, torn)
    end_attempt(run_dir, attempt, ending.status, phase, ending.cause)
    await job.tidy(redact)
    journal.note(
        "outcome",
        f"{outcome.status}; {outcome.points_written} of {outcome.points_planned} points written",
        status=outcome.status,
    )
    return outcome


def _tell_attempt(attempt: Attempt, journal: Journal) -> None:
    text = f"attempt {attempt.number}"
    if attempt.number > 1:
        text += f"; {attempt.points_before} points are there; earlier logs in logs/attempt<n>/"
    journal.note("attempt", text, attempt=attempt.number, job=attempt.job_id)


async def _move_on(job: Job, unfit: UnfitNodesError, ending: Ending) -> Ending:
    """The run handed to a new job without the unfit nodes; where that cannot be, its own end."""
    bad = unfit.verdict.bad_nodes
    try:
        new = await resubmit(unfit.verdict, job.run.plan, job.run_dir, job.environ)
    except NotResubmittedError as error:
        job.journal.warn("not_resubmitted", str(error), nodes=list(bad))
        return Ending(ending.status, f"{ending.cause}\nnot submitted again: {error}")
    text = f"submitted again as job {new}, without {', '.join(bad)}"
    job.journal.warn(RESUBMITTED, text, job_id=new, excluded=bad)
    old = job.environ.get("SLURM_JOB_ID", "")
    changed, problems = await asyncio.to_thread(hand_on, old, new, ask_slurm)
    if changed:
        told = f"jobs that wait for {old} now wait for {new} too: {', '.join(changed)}"
        job.journal.note("handed_on", told, jobs=changed)
    for problem in problems:
        job.journal.warn("not_handed_on", problem)
    return Ending(RESUBMITTED, text)


def _tell_teardown(torn: Teardown, journal: Journal) -> None:
    text = f"{torn.processes} processes in {torn.seconds:.1f} s, {torn.killed} of them by KILL"
    if torn.survivors:
        journal.warn("left", f"{text}; could not be stopped: {', '.join(torn.survivors)}")
    else:
        journal.note("stopped", f"{text}; none left ({torn.looked_at})", after_s=torn.seconds)


class Job:
    """One run in progress."""

    def __init__(
        self,
        run: RunSpec,
        run_dir: RunDir,
        environ: Mapping[str, str],
        journal: Journal,
        death: asyncio.Future[JobError],
    ) -> None:
        self.run = run
        self.run_dir = run_dir
        self.environ = environ
        self.journal = journal
        self.death = death
        self.allocation: Allocation | None = None
        self.supervisor: Supervisor | None = None
        self.unfit: UnfitNodesError | None = None
        self.served: tuple[Deployment, dict[str, Watched]] | None = None
        """Set once all workers were ready."""

    async def work(self) -> None:
        """All phases, to the end of the last measurement."""
        plan, journal = self.run.plan, self.journal
        journal.enter("allocation", f"run {self.run.run_id}, {plan.executor}, {plan.nodes} nodes")
        check_questions(plan.accuracy)
        if changed := settle(self.run_dir):
            journal.warn("code_changed", changed)
        self.allocation = allocation = await self._allocate()
        around = self._surroundings(allocation)
        self.supervisor = supervisor = Supervisor(around, journal, self.death)
        journal.enter("preflight")
        try:
            await check_nodes(self.run, allocation, supervisor, journal)
        except UnfitNodesError as error:
            self.unfit = error
            raise
        if plan.stage:
            journal.enter("stage", f"{plan.stage.source} to {plan.stage.dir} on every node")
            await stage_model(plan, plan.stage, allocation, supervisor, journal)
        journal.enter("start", f"{len(plan.workers)} workers")
        workers = [await supervisor.start(worker, worker.role) for worker in plan.workers]
        sweep = Sweep(self.run, self.run_dir, supervisor, journal)
        await sweep.prepare()
        beside = [
            asyncio.create_task(sweep.tell_ready()),
            asyncio.create_task(keep_house(supervisor, plan.log_limit_mb, journal, self.death)),
        ]
        try:
            async with (
                Http(around.secret) as http,
                Http(around.secret, fresh=True) as fresh,
                Http(around.secret) as looking,
            ):
                deployment = Deployment(plan, around.dialect, http, dict(around.tokens))
                await wait_for_workers(deployment, workers, supervisor, journal)
                watched = {worker.step.name: worker for worker in workers}
                self.served = (deployment, watched)
                if plan.router:
                    journal.enter("router")
                    router = await supervisor.start(plan.router, "router")
                    watched[plan.router.name] = router
                    await wait_for_router(deployment, journal)
                watch = HangWatch(deployment, fresh, watched, journal, self.death)
                series, found = self.run_dir.series, targets(deployment)
                sampler = Sampler(found, plan.sample_s, series, looking, journal)
                with watch.looking():
                    async with sampler.sampling():
                        await self._measure(deployment, supervisor, sweep, watch, sampler)
        finally:
            for task in beside:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        journal.enter("done", "all points and repeats are written")

    async def _measure(
        self,
        deployment: Deployment,
        supervisor: Supervisor,
        sweep: Sweep,
        watch: HangWatch,
        sampler: Sampler,
    ) -> None:
        """Canary, points, accuracy."""
        journal, plan = self.journal, self.run.plan
        journal.enter("canary")
        report = await run_canary(deployment, self.run_dir, journal)
        if report["verdict"] == "skipped":
            await first_token_through_router(deployment)
        await sweep.measure(deployment, watch.expecting_tokens, sampler)
        if plan.accuracy:
            journal.enter("accuracy")
            secret = supervisor.around.secret
            with watch.expecting_tokens():
                await measure_accuracy(self.run, deployment, self.run_dir, secret, journal)

    async def _allocate(self) -> Allocation:
        """The nodes, once and for all; written to allocation.json."""
        plan = self.run.plan
        if plan.executor == "slurm":
            allocation = await slurm_allocation(plan.nodes, self.environ)
        else:
            allocation = local_allocation(plan.nodes, self.run.run_id)
        told = {**dataclasses.asdict(allocation), "driver_pid": os.getpid()}
        write_json(self.run_dir.allocation, told)
        names = ", ".join(f"{node.name} ({node.address})" for node in allocation.nodes)
        self.journal.note("allocation", f"job {allocation.job_id or 'local'}: {names}")
        return allocation

    def _surroundings(self, allocation: Allocation) -> Surroundings:
        secret = run_key(self.run_dir)
        mark = f"{self.run.run_id}-{secrets.token_hex(4)}"
        return Surroundings(
            run_dir=self.run_dir,
            nodes=allocation.nodes,
            tokens=self._tokens(allocation),
            env=step_environment(self.environ, secret, mark),
            secret=secret,
            mark=mark,
            dialect=dialect_of(self.run.engine.protocol),
        )

    async def reasons(self) -> list[str]:
        """What Slurm says of the nodes, and what the logs say; to be asked before the tear-down."""
        if self.supervisor is None:
            return []
        found = [trouble] if (trouble := disk_trouble(self.run_dir.path)) else []
        if self.allocation and self.allocation.job_id:
            found += await troubled_nodes([node.name for node in self.allocation.nodes])
        if self.served is not None:
            dead = self.supervisor.first_dead
            gone = await unreachable(*self.served)
            others = [about for about in gone if dead is None or about != dead[0].about]
            found += [f"nothing listens any more at {', '.join(others)}"] if others else []
        return [*found, *filter(None, [self.supervisor.explain()])]

    def _tokens(self, allocation: Allocation) -> dict[str, str]:
        base = self.run.plan.preflight.cache_dir or "/tmp"
        stage = self.run.plan.stage.dir if self.run.plan.stage else None
        return token_values(allocation.nodes, self.run_dir.path, self.run.run_id, base, stage)

    async def tidy(self, redact: Redactor) -> None:
        """Secrets out of the logs, caches off the nodes; told when that could not be done."""
        if scrubbed := redact.scrub(self.run_dir.path.glob("logs/**/*.log")):
            names = ", ".join(path.name for path in scrubbed)
            self.journal.warn("scrubbed", f"secrets were blotted out in {names}")
        if self.supervisor and not await keep_series(self.run_dir, self.supervisor.around.env):
            self.journal.warn("series", "series.parquet was not written; series/ has the numbers")
        base = self.run.plan.preflight.cache_dir
        if base is None or self.allocation is None or self.supervisor is None:
            return
        env = self.supervisor.around.env
        if not await remove_caches(base, self.run.run_id, self.allocation, env):
            self.journal.warn("caches", f"the caches in {base} are left to the next preflight")

    async def stop(self) -> Teardown:
        """Stops every process of the run, and looks whether any is left."""
        if self.supervisor is None:
            return Teardown(looked_at="nothing was started")
        job_id = self.allocation.job_id if self.allocation else None
        slurm = SlurmSteps(job_id, own_step(self.environ)) if job_id else None
        return await self.supervisor.stop_all(self.run.plan.budgets.teardown_s, slurm)


def run_key(run_dir: RunDir) -> str:
    """The run's own API key, made on first use, mode 0600."""
    if not run_dir.api_key.exists():
        write_text(run_dir.api_key, secrets.token_urlsafe(32) + "\n")
    return run_dir.api_key.read_text(encoding="utf-8").strip()
