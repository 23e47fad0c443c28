"""What makes a point INVALID: its numbers do not mean what the columns say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from analysis.accuracy import Gate, collapse, gate
from analysis.point import DEFINITIONS, expected_range, external_share, in_flight, miscounted
from analysis.run import Run
from analysis.thresholds import (
    ACCURACY_CUT,
    CLOCK_SLACK,
    COUNT_DISAGREEMENT,
    LENGTH_DRIFT,
    LENGTH_SLACK,
    NO_TRANSFER,
    OVER_CONCURRENCY,
    RATE_DISAGREEMENT,
)
from jobs.records import BenchPoint

OWN_LENGTHS = ("trace", "multi_turn")
"""Sources whose lengths are not drawn from a range: their records have the ranges asked for."""


def point_faults(run: Run, point: BenchPoint) -> Iterator[str]:
    """Every fault of one point, in words."""
    yield from _requests(point)
    if run.foreign is not None:
        yield from _foreign_lengths(point)
    elif point.index in run.shaped:
        yield from _short(point)
    else:
        yield from _lengths(point)
    yield from _other_tokenizer(point)
    yield from _counts(point, point.index not in run.shaped)
    yield from _clock(point)
    yield from _transfer(run, point)


def _requests(point: BenchPoint) -> Iterator[str]:
    if point.failed:
        why = "".join(f"; {count} x {name}" for name, count in sorted(point.errors.items())[:3])
        yield f"{point.failed} of {point.num_prompts} requests failed{why}"
    missing = point.num_prompts - point.completed - point.failed
    if missing:
        yield f"{missing} of {point.num_prompts} requests unaccounted for"
    if not point.completed:
        yield "nothing completed"


def _lengths(point: BenchPoint) -> Iterator[str]:
    """Tokens against what was asked for; only successful requests are counted in both."""
    low, high = (end * point.completed for end in point.output_range)
    if point.total_output_tokens < low:
        yield f"{point.total_output_tokens} output tokens, at least {low} were asked for"
    if point.total_output_tokens > high:
        yield f"{point.total_output_tokens} output tokens, at most {high} were asked for"
    yield from _short(point)
    if point.source not in OWN_LENGTHS:
        yield from _mean_lengths(point)


def _mean_lengths(point: BenchPoint) -> Iterator[str]:
    """Mean lengths against the uniform ranges that they were drawn from."""
    low = point.output_range[0] * point.completed
    told = point.window.short_outputs or point.total_output_tokens < low
    if not told and _drift(point, point.output_range, False) < -1:
        mean = point.total_output_tokens / point.completed
        yield (
            f"early stop: mean answer {mean:.1f} tokens is below what {point.output_range[0]}.."
            f"{point.output_range[1]} gives"
        )
    if abs(_drift(point, point.input_range, True)) > 1:
        mean = point.total_input_tokens / point.completed
        yield (
            f"mean input length {mean:.1f} is not that of {point.input_range[0]}.."
            f"{point.input_range[1]}: not comparable"
        )
    yield from _range_faults(point)


def _other_tokenizer(point: BenchPoint) -> Iterator[str]:
    """Prompts that the servers count otherwise by as much as makes them other prompts."""
    off = point.window.other_prompt_tokens or 0
    if off > COUNT_DISAGREEMENT.value * point.total_input_tokens:
        yield f"{miscounted(point)}, {off / max(1, point.total_input_tokens):.1%} of all"


def _short(point: BenchPoint) -> Iterator[str]:
    if point.window.short_outputs:
        yield (
            f"early stop: {point.window.short_outputs} of {point.completed} answers have fewer"
            " tokens than asked for"
        )


def _foreign_lengths(point: BenchPoint) -> Iterator[str]:
    """Of another tool's result the mean lengths, where it tells what was asked for."""
    name, ratio = point.range_definition, point.range_ratio
    if name in DEFINITIONS and (point.isl or point.osl) and expected_range(name, 1, ratio) is None:
        yield f"range ratio {ratio:g} has no meaning in definition {name!r}"
    sides = (("input", point.total_input_tokens, point.input_range),
             ("output", point.total_output_tokens, point.output_range))  # fmt: skip
    for side, total, asked in sides:
        if point.completed and not total:
            yield f"{point.completed} requests completed without a single {side} token"
        elif asked != [0, 0] and abs(_drift(point, asked, side == "input")) > 1:
            why = f"mean {side} length {total / point.completed:.1f} is not that of"
            short = (
                "early stop: " if side == "output" and total < asked[0] * point.completed else ""
            )
            yield f"{short}{why} {asked[0]}..{asked[1]}: not comparable"


def _range_faults(point: BenchPoint) -> Iterator[str]:
    """The ranges must be those that the named definition gives (one token of rounding)."""
    name, ratio = point.range_definition, point.range_ratio
    if name not in DEFINITIONS:
        yield f"range definition {name!r} is none of {', '.join(DEFINITIONS)}"
        return
    asked = ((point.isl, point.input_range), (point.osl, point.output_range))
    for length, given in asked:
        meant = expected_range(name, length, ratio)
        if meant is None:
            yield f"range ratio {ratio:g} has no meaning in definition {name!r}"
            return
        if any(abs(a - max(b, 1)) > 1 for a, b in zip(given, meant, strict=True)):
            yield (
                f"range {given[0]}..{given[1]} is not {name!r} of {length} with ratio {ratio:g}"
                f" ({meant[0]}..{meant[1]})"
            )


def _drift(point: BenchPoint, asked: list[int], prompts: bool) -> float:
    """How far a mean length is off, signed, as a multiple of what is allowed.

    Allowed: LENGTH_DRIFT, or LENGTH_SLACK tokens a request, and four standard errors of the
    uniform draw.
    """
    if not point.completed:
        return 0.0
    low, high = asked
    total = point.total_input_tokens if prompts else point.total_output_tokens
    middle, spread = (low + high) / 2, (high - low) / math.sqrt(12 * point.completed)
    allowed = max(LENGTH_DRIFT.value * middle, LENGTH_SLACK.value) + 4 * spread
    return (total / point.completed - middle) / allowed


def _counts(point: BenchPoint, known: bool) -> Iterator[str]:
    """The client's token counts against the servers'; their window holds the warm-up as well.

    How long warm-up requests can be is `known` of uniform draws only.
    """
    server = point.server
    told = (
        ("output", point.total_output_tokens, server.generation_tokens, point.output_range[1]),
        ("prompt", point.total_input_tokens, server.prefill_prompt_tokens, point.input_range[1]),
    )
    for name, client, counted, longest in told:
        if counted is None or not point.completed:
            continue
        others = point.warmup_requests + point.num_prompts - point.completed
        slack = COUNT_DISAGREEMENT.value * client + LENGTH_SLACK.value * (point.completed + others)
        most = client + others * longest + slack if known else math.inf
        if not client - slack <= counted <= most:
            beside = f" (with {others} warm-up or failed requests)" if others else ""
            yield (
                f"the client counted {client} {name} tokens, the servers {counted:.0f}{beside}:"
                " they disagree"
            )


def _clock(point: BenchPoint) -> Iterator[str]:
    """Times that cannot all be true."""
    span = _span_s(point)
    if span is not None and span < 0:
        yield f"clock: the point ended {-span:.0f} s before it started"
    elif span is not None and span + CLOCK_SLACK.value < point.duration_s:
        yield (
            f"clock: the client measured {point.duration_s:.1f} s within {span:.1f} s of wall clock"
        )
    longest = point.e2el_ms.mean
    if longest is not None and longest / 1000 > point.duration_s + CLOCK_SLACK.value:
        yield f"clock: mean E2E {longest / 1000:.1f} s, but the point took {point.duration_s:.1f} s"
    flying = in_flight(point)
    if (
        flying is not None
        and point.concurrency
        and flying > OVER_CONCURRENCY.value * point.concurrency
    ):
        yield (
            f"clock: {flying:.1f} requests in flight on average (completed x E2E / duration), at"
            f" most {point.concurrency} were allowed"
        )
    rate = point.request_throughput
    if rate is not None and point.completed and point.duration_s:
        told = point.completed / point.duration_s
        if abs(rate - told) > RATE_DISAGREEMENT.value * told:
            yield f"clock: {rate:.4g} requests/s told, {told:.4g} by count and duration"


def _span_s(point: BenchPoint) -> float | None:
    """Wall-clock seconds from the point's start to its end; None where either is no time."""
    try:
        start = datetime.fromisoformat(point.started_at)
        return (datetime.fromisoformat(point.ended_at) - start).total_seconds()
    except (ValueError, TypeError):
        return None


def _transfer(run: Run, point: BenchPoint) -> Iterator[str]:
    if point.server.kv_failed:
        yield f"{point.server.kv_failed:.0f} KV transfers failed"
    share = external_share(point)
    if run.disaggregated and run.uses_nixl and share is not None and share < NO_TRANSFER.value:
        yield f"KV not transferred: decode took {share:.1%} of the prompt tokens from prefill"


def run_faults(run: Run) -> Iterator[str]:
    """What is wrong with every point of the run: its answers are."""
    plan, summary = run.accuracy_plan, run.accuracy
    if summary is None:
        return
    if summary.transport_failures:
        yield (
            f"accuracy: {summary.transport_failures} of {summary.questions} questions never got"
            " an answer (transport), run it again"
        )
    if fallen := collapse(summary):
        yield fallen
    gated = gate(plan, summary)
    if gated is Gate.ABSENT or plan is None or plan.threshold is None:
        return
    too_short = summary.cut_rate > ACCURACY_CUT.value
    advice = (
        f"{summary.cut_rate:.0%} of the answers ended at the token limit (finish reason length):"
        " allow more tokens, or switch thinking off"
    )
    if gated is Gate.FAILED:
        tail = f"; {advice}" if too_short else ""
        yield f"accuracy {summary.mean:.4f} is below {plan.threshold:.4g}{tail}"
    elif too_short:
        yield f"accuracy: {advice}"
