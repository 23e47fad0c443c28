"""What limits a point: one word, and the numbers it rests on.

The rule, of the steady part of the point (jobs/stations.py); its limits are in
bottleneck_limits.py, the same in words in docs/find-the-bottleneck.md:

    prefill         its ranks are busy, and either requests wait at them nearly always, or they
                    hold half of all requests
    decode-kv       the KV pool of decode is full (or has no room for one more request) and
                    requests wait at decode, or were preempted
    decode-compute  requests wait at decode nearly always though its KV has room: its batch is
                    full; or, where nothing waits anywhere, decode is busy and holds half of them
    transfer        a third of all requests wait for KV that is under way
    frontend, client  half of all requests are in no engine: frontend when an API server uses its
                    core up or answers late, or the router has them; client when it says so
                    itself, or the router does not have them

Where several hold, the one at which most requests stand is named, and the evidence has the
others' numbers. Anything else is unknown, and the evidence says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analysis.bottleneck_limits import (
    ANSWER_MS,
    AT_ROUTER,
    BUSY,
    FETCHING,
    FRONTEND_CPU,
    HOLDS,
    KV_FULL,
    KV_QUEUED,
    LOOKS_PER_RANK,
    QUEUED,
)
from analysis.point import in_flight
from analysis.thresholds import CLIENT_CPU
from jobs.records import BenchPoint, Station, Stations

PREFILL, DECODE_KV, DECODE_COMPUTE = "prefill", "decode-kv", "decode-compute"
TRANSFER, FRONTEND, CLIENT, UNKNOWN = "transfer", "frontend", "client", ""


@dataclass(frozen=True)
class Bottleneck:
    """`word` is empty where it is not known; `evidence` says the numbers, or why."""

    word: str
    evidence: str


@dataclass(frozen=True)
class Candidate:
    """Something saturated, why it counts as that, and how many requests stand there."""

    word: str
    why: str
    held: float


def bottleneck(point: BenchPoint, stations: Stations | None) -> Bottleneck:
    """The verdict on one point, by where its requests stood."""
    if stations is None:
        return Bottleneck(UNKNOWN, "unknown: nothing was sampled while it was measured")
    if few := _too_few(stations):
        return Bottleneck(UNKNOWN, f"unknown: {few}")
    flying = in_flight(point) or float(point.concurrency)
    found = list(_candidates(point, stations, flying))
    told = "; ".join(_described(stations, flying))
    if not found:
        found = list(_last(stations, flying))
    if not found:
        return Bottleneck(UNKNOWN, f"unknown: nothing is saturated: {told}")
    best = max(found, key=lambda candidate: candidate.held)
    return Bottleneck(best.word, f"{best.why}; {told}")


def _too_few(stations: Stations) -> str:
    """Why these looks are not enough; empty when they are."""
    for role, station in _roles(stations):
        each = station.looks / station.ranks
        if each < LOOKS_PER_RANK.value:
            return (
                f"too few looks: {each:.3g} at each {role} rank in {stations.span_s:.1f} s of "
                f"steady load, {LOOKS_PER_RANK.value:g} are needed: a longer point, or a smaller "
                "cluster.sample_s"
            )
    return ""


def _roles(stations: Stations) -> list[tuple[str, Station]]:
    places = (
        ("prefill", stations.prefill),
        ("decode", stations.decode),
        ("aggregated", stations.aggregated),
    )
    return [(role, station) for role, station in places if station is not None]


def _candidates(point: BenchPoint, stations: Stations, flying: float) -> Iterator[Candidate]:
    prefill, decode = stations.prefill, stations.decode or stations.aggregated
    if prefill is not None:
        yield from _prefill(prefill, flying)
    if decode is not None:
        yield from _decode(decode, apart=stations.decode is not None)
        yield from _transfer(decode, flying)
    yield from _outside(point, stations, flying)


def _prefill(station: Station, flying: float) -> Iterator[Candidate]:
    busy, queued = station.busy_share, station.queued_share
    held = (station.running or 0.0) + (station.waiting or 0.0)
    if busy is None or busy < BUSY.value:
        return
    if queued is not None and queued >= QUEUED.value:
        why = f"prefill busy {busy:.0%} of the time with requests waiting {queued:.0%} of it"
        yield Candidate(PREFILL, why, held)
    elif held >= HOLDS.value * flying:
        share = min(1.0, held / flying)
        yield Candidate(PREFILL, f"prefill busy {busy:.0%} of the time, {share:.0%} there", held)


def _decode(station: Station, *, apart: bool) -> Iterator[Candidate]:
    queued, held = station.queued_share or 0.0, station.waiting or 0.0
    full = _kv_is_full(station)
    if full and (queued >= KV_QUEUED.value or station.preemptions):
        thrown = f", {station.preemptions:.0f} preemptions" if station.preemptions else ""
        yield Candidate(DECODE_KV, f"decode KV {full}, {held:.3g} waiting at decode{thrown}", held)
    elif apart and full is not None and not full and queued >= QUEUED.value:
        why = (
            f"{held:.3g} waiting at decode though its KV has room ({_percent(station.kv_usage)} "
            "used): its batch is full"
        )
        yield Candidate(DECODE_COMPUTE, why, held)


def _kv_is_full(station: Station) -> str | None:
    """How full, in words; empty where there is room; None where it is not known."""
    usage, high = station.kv_usage, station.kv_usage_p90
    if usage is None or high is None:
        return None
    if high >= KV_FULL.value:
        return f"{high:.0%} used"
    requests = ((station.running or 0.0) + (station.fetching or 0.0)) / station.ranks
    if requests and 1 - high < usage / requests:
        return f"{high:.0%} used, no room for another request of {usage / requests:.0%}"
    return ""


def _transfer(station: Station, flying: float) -> Iterator[Candidate]:
    fetching = station.fetching or 0.0
    if fetching >= FETCHING.value * flying:
        yield Candidate(
            TRANSFER, f"{fetching:.3g} of {flying:.3g} requests wait for KV under way", fetching
        )


def _outside(point: BenchPoint, stations: Stations, flying: float) -> Iterator[Candidate]:
    """Requests that are in no engine: with the client, the router or an API server."""
    outside = flying - _inside(stations)
    unknown = any(station.running is None for _, station in _roles(stations))
    if unknown or outside < HOLDS.value * flying:
        return
    what = f"{outside:.3g} of {flying:.3g} requests are in no engine"
    load = point.load.client_cpu_share
    if load is not None and load > CLIENT_CPU.value:
        yield Candidate(CLIENT, f"{what}; the client uses {load:.0%} of its core", outside)
        return
    for role, station in _roles(stations):
        if (station.cpu or 0.0) >= FRONTEND_CPU.value:
            who = f"API server of {station.cpu_process} uses {station.cpu:.2f} cores"
            yield Candidate(FRONTEND, f"{what}; the {who}", outside)
            return
        if (station.answer_ms or 0.0) >= ANSWER_MS.value:
            late = f"{role} API servers take {station.answer_ms:.0f} ms for a metrics page"
            yield Candidate(FRONTEND, f"{what}; {late}", outside)
            return
    active = stations.router_active
    if active is not None and active < AT_ROUTER.value * flying:
        yield Candidate(CLIENT, f"{what}, and the router has {active:.3g} under way", outside)
    elif active is not None:
        yield Candidate(FRONTEND, f"{what}, though the router has {active:.3g} under way", outside)


def _last(stations: Stations, flying: float) -> Iterator[Candidate]:
    """Nothing waits anywhere: what decode's steps take is what is left."""
    decode = stations.decode
    if decode is None or decode.busy_share is None or decode.running is None:
        return
    if decode.busy_share >= BUSY.value and decode.running >= HOLDS.value * flying:
        why = (
            f"{decode.running:.3g} of {flying:.3g} requests run in decode, busy "
            f"{decode.busy_share:.0%} of the time, and nothing waits"
        )
        yield Candidate(DECODE_COMPUTE, why, decode.running)


def _inside(stations: Stations) -> float:
    return sum(
        (station.running or 0.0) + (station.waiting or 0.0) + (station.fetching or 0.0)
        for _, station in _roles(stations)
    )


def _described(stations: Stations, flying: float) -> Iterator[str]:
    """The numbers of every station, whatever the verdict."""
    for role, station in _roles(stations):
        busy = station.busy_share
        words = [
            f"{role} idle {_percent(None if busy is None else 1 - busy)}",
            f"{_short(station.running)} running",
            f"{_short(station.waiting)} waiting",
        ]
        if role != "prefill":
            words += [f"{_short(station.fetching)} fetching KV"] if station.fetching else []
        words.append(f"KV {_percent(station.kv_usage)}")
        yield ", ".join(words)
    outside = max(0.0, flying - _inside(stations))
    yield f"{outside:.3g} of {flying:.3g} in no engine"
    looks = sum(station.looks for _, station in _roles(stations))
    yield f"{looks} looks in {stations.span_s:.0f} s ({stations.source})"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"
