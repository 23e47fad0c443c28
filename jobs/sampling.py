"""Every engine's and the router's numbers, looked at again and again while the run measures.

It must never end or delay a run: a process that does not answer leaves a gap, and whatever goes
wrong here costs the series, not the run.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.events import Journal
from jobs.probing import AskError, Http
from jobs.records import Stations
from jobs.rendezvous import Deployment
from jobs.run_spec import Worker
from jobs.series_files import SeriesFiles
from jobs.series_page import Numbers, SeriesPage
from jobs.stations import ROUTER, Look, sum_up
from jobs.tokens import fill

SHARE = 0.05
"""Of its time that a process may spend on being looked at: one whose page takes long to make
(many ranks behind one address) is asked more rarely than every cluster.sample_s ... Only the making
counts, not what a busy process lets the question wait: that is when looks matter most."""

RAREST_S = 10.0
"""... but not more rarely than this."""

EACH_S = 0.02
"""Least interval per process: the driver's own part stays near a tenth of a core for any number of
them (2 ms a page of 57 KB, benchmarks/sampling.py), and 72 are looked at every 1.4 s."""

PATIENCE_S = 10.0
ANSWER = "answer_s"
OWN_COLUMNS = ("t", "rank", ANSWER)
MOST_LOOKS = 10_000
"""Kept of a point for its record; of more, every second is forgotten."""


@dataclass(slots=True)
class Target:
    """One address to look at. `ranks` are the global ranks behind it, in order."""

    name: str
    role: str
    url: str
    page: SeriesPage
    ranks: list[int]
    looks: int = 0
    missed: int = 0
    fastest_s: float = math.inf
    """What its page takes when nothing is in front of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What its rows are."""
        return OWN_COLUMNS + self.page.words

    def take(self, t: float, answer_s: float, found: dict[str, Numbers]) -> list[Look]:
        """One look at the process itself, one at every rank."""
        engines = sorted((label for label in found if label.isdecimal()), key=int)
        own = Look(t, self.name, self.role, None, {**found.get("", {}), ANSWER: answer_s})
        return [own] + [
            Look(t, self.name, self.role, self._rank(engines, place), found[engine])
            for place, engine in enumerate(engines)
        ]

    def row(self, look: Look) -> list[float | None]:
        """A look as `columns` has it."""
        numbers = (look.get(word) for word in (ANSWER, *self.page.words))
        return [look.t, look.rank, *numbers]

    def _rank(self, engines: list[str], place: int) -> int:
        """The global rank of an engine: its label where that is one of the ranks here, else by
        place (a hybrid load balancer may count its local ranks from 0)."""
        if set(map(int, engines)) <= set(self.ranks) or place >= len(self.ranks):
            return int(engines[place])
        return self.ranks[place]


class Sampler:
    """Looks at every target each `every_s` seconds; 0: at none."""

    def __init__(
        self, targets: list[Target], every_s: float, folder: Path, http: Http, journal: Journal
    ) -> None:
        self._every_s = max(every_s, EACH_S * len(targets))
        self._files = SeriesFiles(folder)
        self._http = http
        self._journal = journal
        self._targets = targets if every_s > 0 else []
        self._kept: list[Look] = []

    @asynccontextmanager
    async def sampling(self) -> AsyncIterator[None]:
        """It looks while this lasts."""
        self._files.begin()
        for target in self._targets:
            self._files.head(target.name, target.role, target.columns)
        count = len(self._targets)
        tasks = [
            asyncio.create_task(self._look(target, self._every_s * place / count))
            for place, target in enumerate(self._targets)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self._files.close)
            self._tell(ends)

    async def _look(self, target: Target, first_s: float) -> None:
        """One address again and again; a slow one holds up no other."""
        await asyncio.sleep(first_s)
        while True:
            begun = time.monotonic()
            target.looks += 1
            try:
                page = await self._http.text(target.url, PATIENCE_S)
            except AskError:
                target.missed += 1
            else:
                took = time.monotonic() - begun
                target.fastest_s = min(target.fastest_s, took)
                looks = target.take(time.time() - took / 2, took, target.page.read(page))
                for look in looks:
                    self._files.row(target.name, target.row(look))
                self._keep(looks)
            rest = time.monotonic() - begun
            cost_s = 0.0 if math.isinf(target.fastest_s) else target.fastest_s
            every = max(self._every_s, min(cost_s / SHARE, RAREST_S))
            await asyncio.sleep(max(every - rest, self._every_s / 10))

    def begin_point(self) -> None:
        """What is looked at from here on belongs to one point."""
        self._kept = []

    def sum_up(self) -> Stations | None:
        """Where the point's requests stood so far; None where nothing was seen."""
        return sum_up(self._kept)

    def _keep(self, looks: list[Look]) -> None:
        self._kept += looks
        if len(self._kept) > MOST_LOOKS:
            self._kept = every_second(self._kept)

    def _tell(self, ends: list[BaseException | None]) -> None:
        """How complete the series are; never an error of the run."""
        if not self._targets:
            return
        looks = sum(target.looks for target in self._targets)
        gaps = {target.name: target.missed for target in self._targets if target.missed}
        text = f"{looks} looks at the metrics of {len(self._targets)} processes"
        if gaps:
            text += "; no answer: " + ", ".join(f"{name} {n} x" for name, n in gaps.items())
        self._journal.note("series", text, looks=looks, gaps=gaps)
        lost = [str(end) for end in ends if isinstance(end, Exception)]
        if self._files.trouble or self._files.dropped:
            lost.append(f"{self._files.dropped} rows not written: {self._files.trouble}")
        if lost:
            self._journal.warn("series_lost", f"series/ is incomplete: {'; '.join(lost)}")


def every_second(looks: list[Look]) -> list[Look]:
    """Every second moment of every process."""
    moments: dict[str, dict[float, int]] = defaultdict(dict)
    for look in looks:
        moments[look.process].setdefault(look.t, len(moments[look.process]))
    return [look for look in looks if moments[look.process][look.t] % 2 == 0]


def targets(deployment: Deployment) -> list[Target]:
    """Every worker with an address, and the router's metrics listener."""
    plan, dialect = deployment.plan, deployment.dialect
    engine = SeriesPage(dialect.engine_series)
    found = [
        Target(
            name=worker.name,
            role=worker.role,
            url=deployment.url(worker) + dialect.metrics_path,
            page=engine,
            ranks=ranks_of(deployment, worker),
        )
        for worker in plan.workers
        if worker.url
    ]
    router = plan.router
    for listener in router.listeners if router else []:
        if router and listener.what == "metrics":
            address = fill(f"{{node{router.node}.address}}", deployment.tokens)
            url = f"http://{address}:{listener.port}{dialect.metrics_path}"
            found.append(Target(ROUTER, ROUTER, url, SeriesPage(dialect.router_series), []))
    return found


def ranks_of(deployment: Deployment, worker: Worker) -> list[int]:
    """Global ranks behind a worker's address: its own and its headless followers'."""
    if worker.served_ranks:
        return worker.served_ranks
    return list(range(deployment.plan.ranks_behind(worker)))
