"""The concurrency sweep: clients prepared early, released one by one, points written at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from jobs.allocation import utc_now
from jobs.causes import exit_text
from jobs.counters import server_counters, snapshot
from jobs.errors import JobError
from jobs.events import Journal
from jobs.prompts.reader import PromptFile, PromptFileError
from jobs.records import BenchPoint, to_json
from jobs.rendezvous import Deployment
from jobs.result_file import (
    client_load,
    error_counts,
    failed_requests,
    goodput_share,
    latency,
    read_result,
)
from jobs.run_spec import Point, RunSpec
from jobs.sampling import Sampler
from jobs.store import RunDir, write_json, write_text
from jobs.supervisor import Supervisor, Watched
from jobs.window import read_window

POLL_S = 0.1
OWN_LENGTHS = ("trace", "multi_turn")


def source_of(point: Point) -> str:
    """Where a point's requests come from."""
    return str(point.prompts.get("source", "random"))


def asked_ranges(point: Point, run_dir: RunDir) -> tuple[list[int], list[int]]:
    """Shortest and longest prompt and answer that were asked for, tokens: the plan's, or where
    lengths are not drawn from ranges (a trace, growing sessions) those of the prompt file."""
    if source_of(point) not in OWN_LENGTHS:
        return point.range.input, point.range.output
    path = run_dir.path / f"points/raw/{point.index}-{point.name}.prompts"
    try:
        file = PromptFile.open(path)
    except PromptFileError as error:
        raise JobError(f"{point.name}: {error}") from error
    measured = slice(file.warmup, None)
    lengths = file.prompt_tokens[measured], file.output_tokens[measured]
    shortest, longest = [int(n.min()) for n in lengths], [int(n.max()) for n in lengths]
    return [shortest[0], longest[0]], [shortest[1], longest[1]]


@dataclass(slots=True)
class Sweep:
    """All points of a run and their client processes."""

    run: RunSpec
    run_dir: RunDir
    supervisor: Supervisor
    journal: Journal
    clients: dict[str, Watched] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def planned(self) -> list[Point]:
        """Points that have no record yet."""
        return [
            point
            for point in self.run.plan.points
            if not self.run_dir.point(point.index, point.concurrency).exists()
        ]

    def gate(self, point: Point, word: str) -> Path:
        """`ready`, `go` or `stop` file of a point's client."""
        return self.run_dir.gates / f"{point.name}.{word}"

    async def prepare(self) -> None:
        """Starts what makes the prompts, then all clients, in the order of the points: each reads
        its prompts once they are there, and waits at its gate."""
        if self.run.plan.prompts and self.planned():
            step = self.run.plan.prompts
            await self.supervisor.start(step, "prompts", may_end_well=True)
        for point in self.planned():
            for word in ("ready", "go", "stop", "progress"):
                self.gate(point, word).unlink(missing_ok=True)
            self.clients[point.name] = await self.supervisor.start(point.step, "client")

    async def tell_ready(self) -> None:
        """Runs beside the other phases and tells when each client has prepared its prompts."""
        begun = time.monotonic()
        while len(self.told) < len(self.clients):
            for point in self.run.plan.points:
                waits = point.name in self.clients and point.name not in self.told
                if waits and self.gate(point, "ready").exists():
                    self.told.add(point.name)
                    text = f"prompts prepared after {time.monotonic() - begun:.1f} s"
                    self.journal.note("prepared", text, step=point.step.name)
            await asyncio.sleep(POLL_S)

    async def measure(
        self,
        deployment: Deployment,
        expecting: Callable[[], AbstractContextManager[None]],
        sampler: Sampler,
    ) -> None:
        """Every point that has no record yet; JobError after a point without a single answer.

        `expecting` is entered while a point's requests are under way.
        """
        for point in self.planned():
            self.journal.enter(f"point {point.name}")
            await self._wait_ready(point)
            sampler.begin_point()
            record = await self._measure(point, deployment, expecting)
            record.stations = await asyncio.to_thread(sampler.sum_up)
            write_json(self.run_dir.point(point.index, point.concurrency), to_json(record))
            self._tell(point, record)
            if record.completed == 0 and record.failed > 0:
                raise JobError(
                    f"all {record.failed} requests of {point.name} failed ({record.errors}); the "
                    "deployment does not serve any more, later points are not tried; log: "
                    f"{self.clients[point.name].running.log}"
                )

    async def _wait_ready(self, point: Point) -> None:
        """Until the client is prepared; the GPUs idle meanwhile, so the time is told."""
        budget = self.run.plan.budgets.prepare_s
        begun = time.monotonic()
        while not self.gate(point, "ready").exists():
            if time.monotonic() - begun > budget:
                raise JobError(
                    f"client of {point.name} has not prepared its {point.num_prompts} prompts "
                    f"within budgets.prepare_s = {budget:.0f} s; log: "
                    f"{self.clients[point.name].running.log}"
                )
            await asyncio.sleep(POLL_S)
        idle = time.monotonic() - begun
        if idle > 1.0:
            text = f"the deployment idled {idle:.1f} s for the client's prompts"
            self.journal.warn("idle", text, idle_s=round(idle, 1))

    async def _measure(
        self,
        point: Point,
        deployment: Deployment,
        expecting: Callable[[], AbstractContextManager[None]],
    ) -> BenchPoint:
        client = self.clients[point.name]
        result = self.run_dir.path / point.result
        result.unlink(missing_ok=True)
        before = await snapshot(deployment, self.journal)
        started = utc_now()
        client.should_live = False
        write_text(self.gate(point, "go"), "go\n")
        budget = self.run.plan.budgets.point_s
        try:
            with expecting():
                async with asyncio.timeout(budget):
                    code = await client.wait()
        except TimeoutError:
            raise JobError(
                f"point {point.name} is not done within budgets.point_s = {budget:.0f} s; "
                f"log: {client.running.log}"
            ) from None
        ended = utc_now()
        if code:
            raise JobError(self.supervisor.describe(client, code))
        after = await snapshot(deployment, self.journal)
        try:
            data = read_result(result)
        except JobError as error:
            lines = "\n  ".join(self.supervisor.tail(client))
            raise JobError(f"{error} ({exit_text(code)}); its last lines:\n  {lines}") from error
        run, plan = self.run, self.run.plan
        asked = asked_ranges(point, self.run_dir)
        throughput = data.get("request_throughput")
        return BenchPoint(
            run_id=run.run_id,
            index=point.index,
            name=point.name,
            engine=run.engine.name,
            rehearsal=run.engine.rehearsal,
            client=point.client,
            concurrency=point.concurrency,
            num_prompts=point.num_prompts,
            isl=point.isl,
            osl=point.osl,
            range_definition=point.range.definition,
            range_ratio=point.range.ratio,
            input_range=asked[0],
            output_range=asked[1],
            source=source_of(point),
            seed=point.seed,
            repeat=point.repeat,
            request_rate=point.sending.request_rate,
            burstiness=point.sending.burstiness if point.sending.request_rate else None,
            started_at=started,
            ended_at=ended,
            duration_s=float(data["duration"]),
            completed=int(data["completed"]),
            failed=failed_requests(data, point.num_prompts),
            total_input_tokens=int(data["total_input_tokens"]),
            total_output_tokens=int(data["total_output_tokens"]),
            warmup_requests=point.warmup_requests,
            request_throughput=float(throughput) if throughput is not None else None,
            goodput_share=goodput_share(data, point.num_prompts),
            goodput_ttft_ms=point.goodput.ttft_ms,
            goodput_tpot_ms=point.goodput.tpot_ms,
            ttft_ms=latency(data, "ttft"),
            tpot_ms=latency(data, "tpot"),
            itl_ms=latency(data, "itl"),
            e2el_ms=latency(data, "e2el"),
            errors=error_counts(data),
            server=server_counters(plan.workers, before, after),
            window=read_window(
                data,
                point.concurrency if point.sending.request_rate is None else 0,
                result.with_suffix(".requests.json"),
            ),
            load=client_load(data),
            raw=point.result,
            snapshot=run.snapshot_sha256,
        )

    def _tell(self, point: Point, record: BenchPoint) -> None:
        tokens = record.total_input_tokens + record.total_output_tokens
        rate = tokens / record.duration_s if record.duration_s else 0.0
        text = (
            f"{point.name}: {record.completed} of {record.num_prompts} requests in "
            f"{record.duration_s:.1f} s, {rate:,.0f} total tokens/s"
        )
        if record.failed:
            self.journal.warn("point", f"{text}; {record.failed} FAILED: {record.errors}")
        else:
            self.journal.note("point", text)
