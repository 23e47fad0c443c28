"""How busy an engine that only prefills was, by its counters.

vLLM writes its gauges at the end of a step, when a request that asked for one token has left
already (v1/core/sched/scheduler.py, update_from_output and then make_stats): prefill that needs
one step a request says "0 running" however busy it is. Its histograms know better: the seconds
that requests spent in prefill, by Little's law, are how many were there on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Told(Protocol):
    """A look at one rank (jobs.stations.Look)."""

    @property
    def t(self) -> float:
        """Seconds on any one clock."""

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """Counters since the engine's start, by the words of the series."""


def prefill_work(first: Told, last: Told) -> tuple[float, float] | None:
    """(requests in prefill on average, share of the time with one) between two looks at a rank.

    A step that prefills several requests at once counts its seconds for each of them, so the
    share divides by the requests a step, where that is above 1. None where the page does not
    tell, or counters went back.
    """
    passed, spent = last.t - first.t, _moved(first, last, "prefill_s")
    if passed <= 0 or spent is None:
        return None
    requests, steps = _moved(first, last, "queued"), _moved(first, last, "steps")
    together = max(1.0, requests / steps) if requests and steps else 1.0
    running = spent / passed
    return running, min(1.0, running / together)


def _moved(first: Told, last: Told, word: str) -> float | None:
    before, after = first.numbers.get(word), last.numbers.get(word)
    return None if before is None or after is None or after < before else after - before
