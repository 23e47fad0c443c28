"""Waiting for workers: a late one that comes is no failure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jobs.engines.vllm import VllmDialect
from jobs.rendezvous import wait_for_workers


def waited_for(workers: list[Any]) -> list[tuple[str, str]]:
    """What is told of a headless worker without ports, which is ready at once; its budget is 0."""
    told: list[tuple[str, str]] = []
    worker = SimpleNamespace(name="decode0", node=0, side_channels=[], url=None)
    plan = SimpleNamespace(workers=[worker], budgets=SimpleNamespace(start_s=0.0, stall={}))
    deployment: Any = SimpleNamespace(plan=plan, dialect=VllmDialect(), http=None, tokens={})
    node = SimpleNamespace(address="127.0.0.1")
    supervisor: Any = SimpleNamespace(around=SimpleNamespace(nodes=[node]))
    journal: Any = SimpleNamespace(note=lambda kind, text, **_more: told.append((kind, text)))
    asyncio.run(wait_for_workers(deployment, workers, supervisor, journal))
    return told


def test_a_worker_that_is_ready_after_the_budget_ends_the_wait_well() -> None:
    """A start that went on beyond budgets.start_s, with progress, failed at its very end: "0 of 2
    workers are not ready"."""
    assert [text[:11] for _, text in waited_for([])] == ["ready after"]


def test_how_far_a_start_came_is_told_also_where_all_are_ready_at_the_first_look(
    tmp_path: Path,
) -> None:
    log = tmp_path / "decode0.log"
    log.write_text("INFO 11-30 08:46:51 [x.py:1] Application startup complete.\n")
    step, running = SimpleNamespace(name="decode0"), SimpleNamespace(log=log, offset=0)
    watched = SimpleNamespace(step=step, running=running, about="decode0")
    assert [kind for kind, _ in waited_for([watched])] == ["ready", "start_up"]
