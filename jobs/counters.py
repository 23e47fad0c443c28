"""The servers' own counters, scraped around a request or a point, and what they moved by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import fields

from jobs.engines.dialect import EngineCounters
from jobs.events import Journal
from jobs.probing import AskError
from jobs.prometheus import Sample, parse_metrics
from jobs.records import ServerCounters
from jobs.rendezvous import Deployment
from jobs.run_spec import Worker

SCRAPE_S = 20.0
NAMES = tuple(field.name for field in fields(EngineCounters))

Snapshot = dict[str, EngineCounters]
"""Counters by worker name, each summed over the ranks behind its URL."""


async def scrape(deployment: Deployment, worker: Worker) -> list[Sample]:
    """One worker's metrics page."""
    url = deployment.url(worker) + deployment.dialect.metrics_path
    return parse_metrics(await deployment.http.text(url, SCRAPE_S))


async def snapshot(deployment: Deployment, journal: Journal) -> Snapshot:
    """All workers' counters now; one that does not answer is left out with a warning."""
    workers = [worker for worker in deployment.plan.workers if worker.url]
    pages = await asyncio.gather(
        *(scrape(deployment, worker) for worker in workers), return_exceptions=True
    )
    found: Snapshot = {}
    for worker, page in zip(workers, pages, strict=True):
        if isinstance(page, AskError):
            journal.warn("no_counters", f"{worker.name}: its counters could not be read: {page}")
        elif isinstance(page, BaseException):
            raise page
        else:
            found[worker.name] = deployment.dialect.counters(page)
    return found


def moved(before: EngineCounters, after: EngineCounters) -> EngineCounters:
    """What counters moved by; a series that only appeared in between began at 0."""
    values: dict[str, float | None] = {}
    for name in NAMES:
        late = getattr(after, name)
        values[name] = None if late is None else late - (getattr(before, name) or 0.0)
    return EngineCounters(**values)


def total(items: Iterable[EngineCounters], name: str) -> float | None:
    """One counter over several engines; None when none of them tells."""
    values = [value for item in items if (value := getattr(item, name)) is not None]
    return sum(values) if values else None


def server_counters(workers: list[Worker], before: Snapshot, after: Snapshot) -> ServerCounters:
    """The record's figures: each counter on the roles where it means something."""
    by_role: dict[str, list[EngineCounters]] = {"prefill": [], "decode": [], "aggregated": []}
    complete = True
    for worker in workers:
        if worker.url is None:
            continue
        if worker.name in before and worker.name in after:
            by_role[worker.role].append(moved(before[worker.name], after[worker.name]))
        else:
            complete = False
    if not complete:
        # A sum over some of the engines would pass for the whole.
        return ServerCounters()
    decode = by_role["decode"]
    readers = by_role["prefill"] or by_role["aggregated"]
    writers = decode or by_role["aggregated"]
    every = [*by_role["prefill"], *decode, *by_role["aggregated"]]
    return ServerCounters(
        decode_external_tokens=total(decode, "external_tokens"),
        decode_local_tokens=total(decode, "local_tokens"),
        prefill_prompt_tokens=total(readers, "prompt_tokens"),
        generation_tokens=total(writers, "generation_tokens"),
        kv_bytes=total(decode, "kv_bytes"),
        kv_transfers=total(decode, "kv_transfers"),
        kv_failed=total(decode, "kv_failed"),
        kv_expired=total(by_role["prefill"], "kv_expired"),
        preemptions=total(every, "preemptions"),
        prefill_cached_tokens=total(readers, "cached_tokens"),
    )
