"""May this row be believed and quoted? One word, and every reason for it.

VALID      the requests did what was asked, and accuracy passed its gate
UNPROVEN   the point itself stands, but a proof is missing: accuracy not run, not finished,
           without a reference, or not comparable; or no server counter shows the KV transfer
INVALID    the numbers do not mean what the columns say, or accuracy failed
REHEARSAL  no engine ran: never a result, whatever the numbers

How the run ended is no part of it: a point written before a run was cut short keeps its verdict,
and the row's `outcome` says how the run ended. Notes never change the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from analysis.accuracy import Gate, gate, title
from analysis.point import DEFINITIONS, expected_range, external_share, latency_is_measured
from analysis.run import Run
from jobs.records import BenchPoint

NO_TRANSFER_SHARE = 0.05
PART_TRANSFER_SHARE = 0.9
LENGTH_DRIFT = 0.02
LENGTH_SLACK_TOKENS = 2
CUT_RATE = 0.05
INVALID_RATE = 0.05


class Verdict(StrEnum):
    """The word in the row."""

    VALID = "VALID"
    UNPROVEN = "UNPROVEN"
    INVALID = "INVALID"
    REHEARSAL = "REHEARSAL"


@dataclass(frozen=True)
class Judgement:
    """The verdict, why it is not VALID, and what a reader should know besides."""

    verdict: Verdict
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def judge(run: Run, point: BenchPoint) -> Judgement:
    """The verdict on one point of a run."""
    faults = (*_requests(point), *_lengths(point), *_transfer(run, point), *_accuracy(run))
    notes = (*_latency_notes(run, point), *_notes(run, point))
    if is_rehearsal(run, point):
        first = "rehearsal engine: numbers are made up, never a result"
        return Judgement(Verdict.REHEARSAL, (first, *faults), notes)
    if faults:
        return Judgement(Verdict.INVALID, faults, notes)
    gaps = (*_transfer_gaps(run, point), *_canary_gaps(run), *_accuracy_gaps(run))
    return Judgement(Verdict.UNPROVEN if gaps else Verdict.VALID, gaps, notes)


def is_rehearsal(run: Run, point: BenchPoint) -> bool:
    """True as soon as any record says so."""
    said = (run.rehearsal, point.rehearsal, point.engine == "rehearsal")
    return any(said) or any(repeat.rehearsal for repeat in run.repeats)


def _canary_gaps(run: Run) -> Iterator[str]:
    """That KV crossed is counted; that it was right, only the canary shows."""
    if not (run.disaggregated and run.uses_nixl) or run.canary == "passed":
        return
    if run.canary == "void":
        yield "the state canary is void: it would not have seen a wrong state (canary.json)"
    else:
        yield f"no state canary ({run.canary or 'canary.json is missing'})"


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
    if _drift(point) > 1:
        mean = point.total_input_tokens / point.completed
        yield (
            f"mean input length {mean:.1f} is not that of {point.input_range[0]}.."
            f"{point.input_range[1]}: not comparable"
        )
    yield from _range_faults(point)


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


def _drift(point: BenchPoint) -> float:
    """How far the mean input length is off, as a multiple of what is allowed.

    Allowed: 2 %, or two tokens a prompt, and four standard errors of the draw from the range.
    """
    if not point.completed:
        return 0.0
    low, high = point.input_range
    middle, spread = (low + high) / 2, (high - low) / math.sqrt(12 * point.completed)
    allowed = max(LENGTH_DRIFT * middle, LENGTH_SLACK_TOKENS) + 4 * spread
    return abs(point.total_input_tokens / point.completed - middle) / allowed


def _transfer(run: Run, point: BenchPoint) -> Iterator[str]:
    if point.server.kv_failed:
        yield f"{point.server.kv_failed:.0f} KV transfers failed"
    if point.server.kv_expired:
        yield f"KV of {point.server.kv_expired:.0f} requests expired before decode fetched it"
    share = external_share(point)
    if run.disaggregated and run.uses_nixl and share is not None and share < NO_TRANSFER_SHARE:
        yield f"KV not transferred: decode took {share:.1%} of the prompt tokens from prefill"


def _transfer_gaps(run: Run, point: BenchPoint) -> Iterator[str]:
    if run.disaggregated and run.uses_nixl and external_share(point) is None:
        yield "decode's servers told no external token count: KV transfer not shown"


def _accuracy(run: Run) -> Iterator[str]:
    plan, summary = run.accuracy_plan, run.accuracy
    if summary is None:
        return
    if summary.transport_failures:
        yield (
            f"accuracy: {summary.transport_failures} of {summary.questions} questions never got"
            " an answer (transport), run it again"
        )
    if gate(plan, summary) is Gate.FAILED and plan and plan.threshold is not None:
        advice = ""
        if summary.cut_rate > CUT_RATE:
            advice = (
                f"; {summary.cut_rate:.0%} of the answers ended at the token limit"
                " (finish reason length): allow more tokens, or switch thinking off"
            )
        yield f"accuracy {summary.mean:.4f} is below {plan.threshold:.4g}{advice}"


def _accuracy_gaps(run: Run) -> Iterator[str]:
    plan, summary = run.accuracy_plan, run.accuracy
    if summary is None:
        yield "accuracy not run" if plan is None else "accuracy not finished: no repeat yet"
        return
    if not (summary.comparable and (plan is None or plan.comparable)):
        yield f"accuracy: {title(summary.dataset, False)}, no gate"
    elif plan is None or plan.threshold is None:
        yield "accuracy has no reference for this model, no gate"
    elif summary.repeats < plan.repeats:
        yield f"accuracy not finished: {summary.repeats} of {plan.repeats} repeats"


def _latency_notes(run: Run, point: BenchPoint) -> Iterator[str]:
    if not latency_is_measured(point):
        yield (
            "TTFT 0 with tokens means not measured (the client saw no first token, as with"
            " reasoning content): TTFT, TPOT and ITL left out"
        )
    if run.stream_interval > 1:
        yield (
            f"ITL left out: servers send {run.stream_interval} tokens a chunk"
            " (--stream-interval), so gaps between chunks are not between tokens"
        )


def _notes(run: Run, point: BenchPoint) -> Iterator[str]:
    share = external_share(point)
    known = run.disaggregated and run.uses_nixl and share is not None
    if known and share is not None and NO_TRANSFER_SHARE <= share < PART_TRANSFER_SHARE:
        yield f"only {share:.1%} of the prompt tokens came from prefill"
    if point.server.preemptions:
        yield f"{point.server.preemptions:.0f} preemptions"
    summary = run.accuracy
    if summary is None:
        return
    if (summary.invalid_rate or 0) > INVALID_RATE:
        yield f"accuracy: {summary.invalid_rate:.1%} of the answers hold no number"
    if summary.cut_rate > CUT_RATE:
        yield f"accuracy: {summary.cut_rate:.0%} of the answers ended at the token limit"
