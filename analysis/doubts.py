"""What makes a point SUSPECT: something beside the servers' steady speed is in its figures."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.accuracy import Gate, gate
from analysis.bottleneck import Bottleneck
from analysis.point import cached_share, external_share, in_flight, mean_e2el_ms, miscounted
from analysis.run import Run
from analysis.thresholds import (
    ACCURACY_INVALID,
    CLIENT_CPU,
    COLD_WAVE,
    LAG_FLOOR_MS,
    LOOP_LAG,
    NO_TRANSFER,
    PART_TRANSFER,
    PROMPTS_PER_STREAM,
    QUEUE_SHARE,
    REACHED_CONCURRENCY,
    REACHED_RATE,
    TTFT_ADDED,
    UNSTEADY,
    WARM_CACHE,
)
from jobs.records import BenchPoint

OUTSIDE = ("frontend", "client")


def point_doubts(run: Run, point: BenchPoint) -> Iterator[str]:
    """Every doubt about one point, in words."""
    if point.index in run.open_loop:
        yield from _paced(point)
    else:
        yield from _offered(point)
    if point.window.other_prompts:
        yield miscounted(point)
    yield from _client(point)
    yield from _span(point)
    yield from _servers(run, point)


def outside_doubts(limit: Bottleneck) -> Iterator[str]:
    """The servers waited: what they can do is not in the figures."""
    if limit.word in OUTSIDE:
        yield f"{limit.word} saturated: {limit.evidence}"


def run_doubts(run: Run) -> Iterator[str]:
    """What is doubtful about every point of the run."""
    yield from run.node_doubts
    summary = run.accuracy
    if summary is None or gate(run.accuracy_plan, summary) is Gate.ABSENT:
        return
    if (summary.invalid_rate or 0) > ACCURACY_INVALID.value:
        yield f"accuracy: {summary.invalid_rate:.1%} of the answers hold no number"


def _offered(point: BenchPoint) -> Iterator[str]:
    """Did the load that was asked for reach the servers?"""
    if not point.concurrency:
        return
    asked, per_stream = point.concurrency, point.num_prompts / max(1, point.concurrency)
    peak, flying = point.window.peak_concurrency, in_flight(point)
    allowed = REACHED_CONCURRENCY.value * asked
    if per_stream < PROMPTS_PER_STREAM.value:
        yield (
            f"too few prompts: {point.num_prompts} for {asked} streams, {per_stream:.3g} each:"
            " ramp-up and drain are a large part of the span"
        )
    if peak is not None and per_stream >= 1 and peak < allowed:
        yield (
            f"client or frontend saturated: {peak} requests in flight at most, {asked} were asked"
            f" for ({peak / asked:.0%})"
        )
    elif flying is not None and flying < allowed * per_stream / (per_stream + 1):
        yield (
            f"client or frontend saturated: {flying:.1f} requests in flight on average (completed"
            f" x E2E / duration), {asked} were asked for"
        )


def _paced(point: BenchPoint) -> Iterator[str]:
    """Did the servers keep up with the rate? Clients send the last request at count / rate."""
    rate, longest = point.request_rate, point.e2el_ms.p99 or mean_e2el_ms(point)
    if not rate or longest is None or not point.completed:
        return
    planned = point.num_prompts / rate + longest / 1000
    if planned < REACHED_RATE.value * point.duration_s:
        yield (
            f"rate not kept: {point.num_prompts} requests at {rate:g}/s took"
            f" {point.duration_s:.1f} s, {planned:.1f} s with the last answer were planned: they"
            f" waited for one of {point.concurrency} streams, or the client was late"
        )


def _client(point: BenchPoint) -> Iterator[str]:
    """Was the client itself in the way?"""
    wait, whole = point.window.queue_mean_ms, mean_e2el_ms(point)
    if wait and whole is not None and wait > QUEUE_SHARE.value * whole:
        yield (
            f"client queueing: requests waited {wait:.0f} ms in the client on average, outside"
            f" TTFT and E2E (mean E2E {whole:.0f} ms)"
        )
    load = point.load
    if load.client_cpu_share is not None and load.client_cpu_share > CLIENT_CPU.value:
        yield (
            f"client saturated: its busiest process used {load.client_cpu_share:.0%} of one core:"
            " use more client processes"
        )
    marks = (
        (
            "its event loop lagged",
            load.client_loop_lag_p99_ms,
            LOOP_LAG.value,
            point.ttft_ms.median,
        ),
        ("it added to TTFT", load.ttft_client_added_p99_ms, TTFT_ADDED.value, point.ttft_ms.p99),
    )
    for words, lag, share, beside in marks:
        if lag is None or beside is None or lag <= max(share * beside, LAG_FLOOR_MS.value):
            continue
        yield f"client saturated: {words} {lag:.0f} ms (p99), TTFT is {beside:.0f} ms"


def _span(point: BenchPoint) -> Iterator[str]:
    """Was the speed the same from one end of the point to the other?"""
    first, later = point.window.first_wave_ttft_ms, point.window.later_ttft_ms
    if first is not None and later and first > COLD_WAVE.value * later:
        yield (
            f"cold first wave: mean TTFT of the first {point.concurrency} requests {first:.0f} ms,"
            f" of the others {later:.1f} ms"
        )
    early, late = point.window.first_half_e2el_ms, point.window.second_half_e2el_ms
    if early and late is not None and abs(late / early - 1) > UNSTEADY.value:
        yield (
            f"not steady: median E2E {early:.0f} ms in the first half of the span, {late:.0f} ms in"
            " the second"
        )


def _servers(run: Run, point: BenchPoint) -> Iterator[str]:
    server = point.server
    if server.preemptions:
        yield f"{server.preemptions:.0f} preemptions: KV was full, work was thrown away"
    if server.kv_expired:
        yield (
            f"leases expired: KV of {server.kv_expired:.0f} requests was freed before decode"
            " fetched it"
        )
    cached = cached_share(point)
    if cached is not None and cached > WARM_CACHE.value and point.index not in run.shaped:
        yield (
            f"warm cache: {cached:.1%} of the prompt tokens were in the prefix cache, the"
            " prompts had been seen before"
        )
    share = external_share(point)
    known = run.disaggregated and run.uses_nixl and share is not None
    if known and share is not None and NO_TRANSFER.value <= share < PART_TRANSFER.value:
        yield f"only {share:.1%} of the prompt tokens came from prefill"
