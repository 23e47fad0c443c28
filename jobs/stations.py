"""Where a point's requests stood: many looks at its engines, summed up in a few numbers.

Only the steady part counts: from the first to the last look that found 80 % of the usual number
of requests in the engines, so that ramp-up, warm-up and drain are left out. Standard library only,
so that the analysis can sum up the same way what an older run left in its files.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jobs.prefill_work import prefill_work
from jobs.records import Station, Stations

STEADY = 0.8
ROUTER = "router"
ROLES = ("prefill", "decode", "aggregated")

Numbers = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one rank of a process; `rank` is None for what is the whole process'.

    `t` is seconds on any one clock; `numbers` are by the words of the series.
    """

    t: float
    process: str
    role: str
    rank: int | None
    numbers: Numbers

    def get(self, word: str) -> float | None:
        """None where the page did not tell."""
        return self.numbers.get(word)

    @property
    def fetching(self) -> float | None:
        """KV transfers under way; older releases only tell that a request is deferred."""
        told = self.get("fetching")
        return told if told is not None else self.get("waiting_deferred")

    @property
    def queued(self) -> float | None:
        """Waiting, and not for a transfer."""
        waiting = self.get("waiting")
        return None if waiting is None else max(0.0, waiting - (self.fetching or 0.0))


def sum_up(looks: Iterable[Look], source: str = "metrics") -> Stations | None:
    """The steady part of these looks; None where no engine was seen with a request."""
    ordered = sorted(looks, key=lambda look: look.t)
    span = steady_span([look for look in ordered if look.rank is not None])
    if span is None:
        return None
    begin, end = span
    inside = [look for look in ordered if begin <= look.t <= end]
    stations = {
        role: _station([look for look in inside if look.role == role], role) for role in ROLES
    }
    return Stations(
        span_s=end - begin,
        source=source,
        router_active=_router([look for look in inside if look.role == ROUTER]),
        **stations,
    )


def steady_span(looks: Sequence[Look]) -> tuple[float, float] | None:
    """First and last time at which the engines together held 80 % of what they usually hold.

    Usual is the upper quartile of the looks that found anything, not the most: a request that
    moves on between the looks at two processes is seen twice.
    """
    held: dict[tuple[str, int | None], float] = {}
    totals = []
    for look in looks:
        requests = (look.get("running") or 0.0) + (look.get("waiting") or 0.0)
        held[look.process, look.rank] = requests
        totals.append((look.t, sum(held.values())))
    usual = _quantile([total for _, total in totals if total > 0], 0.75)
    if usual is None:
        return _worked(looks)
    full = [t for t, total in totals if total >= STEADY * usual]
    return full[0], full[-1]


def _worked(looks: Sequence[Look]) -> tuple[float, float] | None:
    """From the first to the last look where no gauge ever showed a request, though some ended."""
    ranks: dict[tuple[str, int | None], list[Look]] = defaultdict(list)
    for look in looks:
        ranks[look.process, look.rank].append(look)
    if not any(_moved(own, "finished") for own in ranks.values()):
        return None
    return looks[0].t, looks[-1].t


def _station(looks: Sequence[Look], role: str) -> Station | None:
    ranks: dict[tuple[str, int], list[Look]] = defaultdict(list)
    processes: dict[str, list[Look]] = defaultdict(list)
    for look in looks:
        if look.rank is None:
            processes[look.process].append(look)
        else:
            ranks[look.process, look.rank].append(look)
    if not ranks:
        return None
    every = list(ranks.values())
    flat = list(itertools.chain.from_iterable(every))
    running, busy = _work(every, role)
    usage = [value for look in flat if (value := look.get("kv_usage")) is not None]
    busiest = max(
        (
            (cpu, name)
            for name, own in processes.items()
            if (cpu := _rate(own, "cpu_s")) is not None
        ),
        default=(None, ""),
    )
    return Station(
        ranks=len(ranks),
        looks=len(flat),
        running=running,
        waiting=_sum(every, lambda own: _mean_of([look.queued for look in own])),
        fetching=_sum(every, lambda own: _mean_of([look.fetching for look in own])),
        busy_share=busy,
        queued_share=_share([look.queued for look in flat]),
        kv_usage=statistics.fmean(usage) if usage else None,
        kv_usage_p90=_quantile(usage, 0.9),
        preemptions=_sum(every, lambda own: _moved(own, "preemptions")),
        computed_tps=_sum(every, lambda own: _pace(own, "computed")),
        generation_tps=_sum(every, lambda own: _pace(own, "generation")),
        cpu=busiest[0],
        cpu_process=busiest[1],
        answer_ms=_slowest(processes.values()),
    )


def _work(ranks: Sequence[Sequence[Look]], role: str) -> tuple[float | None, float | None]:
    """(requests in batches of all ranks, share of the time with one): by the gauge, and at
    prefill by the counters where they tell of more."""
    running = _sum(ranks, lambda own: _mean(own, "running"))
    busy = _share([look.get("running") for own in ranks for look in own])
    if role != "prefill" or running is None or busy is None:
        return running, busy
    told = [work for own in ranks if (work := prefill_work(own[0], own[-1])) is not None]
    if told:
        counted = sum(requests for requests, _ in told)
        share = sum(share for _, share in told) / len(ranks)
        return max(running, counted), max(busy, share)
    # Statistics lines of a log have the gauge only, and that says 0 of an engine at work.
    works = any((look.get("computed_tps") or 0.0) > 0 for own in ranks for look in own)
    return (None, None) if works and not busy else (running, busy)


def _router(looks: Sequence[Look]) -> float | None:
    """Requests that it holds: vllm-router counts one at prefill as waiting for decode too."""
    told = []
    for look in looks:
        words = ("prefill_active", "decode_pending", "decode_active")
        prefill, pending, active = (look.get(word) for word in words)
        if not prefill is pending is active is None:
            told.append(max(prefill or 0.0, pending or 0.0) + (active or 0.0))
    return statistics.fmean(told) if told else None


def _slowest(processes: Iterable[Sequence[Look]]) -> float | None:
    """The largest of the processes' median answer times, ms."""
    medians = [
        statistics.median(times)
        for looks in processes
        if (times := [value for look in looks if (value := look.get("answer_s")) is not None])
    ]
    return 1000 * max(medians) if medians else None


def _sum(
    ranks: Sequence[Sequence[Look]], of: Callable[[Sequence[Look]], float | None]
) -> float | None:
    """Over the ranks that tell; None where none does."""
    values = [value for own in ranks if (value := of(own)) is not None]
    return sum(values) if values else None


def _mean(looks: Sequence[Look], word: str) -> float | None:
    return _mean_of([look.get(word) for look in looks])


def _mean_of(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return statistics.fmean(told) if told else None


def _share(values: Sequence[float | None]) -> float | None:
    """How many of those told are above 0."""
    told = [value for value in values if value is not None]
    return sum(value > 0 for value in told) / len(told) if told else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    """The smallest value that the share `q` of all does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * q) - 1)] if values else None


def _moved(looks: Sequence[Look], word: str) -> float | None:
    """What a counter moved by from the first look to the last; None where it went back."""
    told = [value for look in looks if (value := look.get(word)) is not None]
    return told[-1] - told[0] if told and told[-1] >= told[0] else None


def _rate(looks: Sequence[Look], word: str) -> float | None:
    """A counter per second."""
    told = [(look.t, value) for look in looks if (value := look.get(word)) is not None]
    if len(told) < 2 or told[-1][0] <= told[0][0] or told[-1][1] < told[0][1]:
        return None
    return (told[-1][1] - told[0][1]) / (told[-1][0] - told[0][0])


def _pace(looks: Sequence[Look], what: str) -> float | None:
    """Tokens per second: by the counter, or as a log line told it."""
    rate = _rate(looks, f"{what}_tokens")
    return rate if rate is not None else _mean(looks, f"{what}_tps")
