"""Waiting for workers: a late one that comes is no failure."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from jobs.engines.vllm import VllmDialect
from jobs.rendezvous import wait_for_workers


def test_a_worker_that_is_ready_after_the_budget_ends_the_wait_well() -> None:
    """A start that went on beyond budgets.start_s, with progress, failed at its very end: "0 of 2
    workers are not ready". A headless worker without ports is ready at once; the budget is 0 s."""
    told: list[str] = []
    worker = SimpleNamespace(name="decode0", node=0, side_channels=[], url=None)
    plan = SimpleNamespace(workers=[worker], budgets=SimpleNamespace(start_s=0.0, stall={}))
    deployment: Any = SimpleNamespace(plan=plan, dialect=VllmDialect(), http=None, tokens={})
    node = SimpleNamespace(address="127.0.0.1")
    supervisor: Any = SimpleNamespace(around=SimpleNamespace(nodes=[node]))
    journal: Any = SimpleNamespace(note=lambda _kind, text, **_more: told.append(text))
    asyncio.run(wait_for_workers(deployment, [], supervisor, journal))
    assert [text[:11] for text in told] == ["ready after"]
