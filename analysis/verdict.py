"""May this row be believed and quoted? One word, and every reason for it.

`analysis/words.py` says what each word means, `analysis/thresholds.py` has every limit. The worst
word wins; reasons of lesser words are told beside it. How the run ended is no part of it: a point
written before a run was cut short keeps its verdict, and the row's `outcome` says how the run
ended. Notes never change the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analysis.accuracy import Gate, gate, title
from analysis.bottleneck import Bottleneck
from analysis.doubts import outside_doubts, point_doubts, run_doubts
from analysis.faults import point_faults, run_faults
from analysis.point import external_share, latency_is_measured
from analysis.run import Run
from analysis.thresholds import ACCURACY_CUT, ACCURACY_INVALID
from analysis.words import Verdict
from jobs.records import BenchPoint

__all__ = ["Judge", "Judgement", "Verdict"]


@dataclass(frozen=True)
class Judgement:
    """The verdict, why it is not VALID, and what a reader should know besides."""

    verdict: Verdict
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


class Judge:
    """Judges the points of one run; what all of them share is looked at once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.made_up = run.rehearsal or any(repeat.rehearsal for repeat in run.repeats)
        self.faults = tuple(run_faults(run))
        self.doubts = tuple(run_doubts(run))
        self.gaps = (*_canary_gaps(run), *_accuracy_gaps(run))
        self.notes = tuple(_notes(run))

    def point(self, point: BenchPoint, limit: Bottleneck) -> Judgement:
        """The verdict on one point, of which `limit` says what held it back."""
        run = self.run
        broken = (*point_faults(run, point), *self.faults)
        doubtful = (*point_doubts(run, point), *outside_doubts(limit), *self.doubts)
        notes = (*_latency_notes(run, point), *self.notes)
        if self.made_up or point.rehearsal or point.engine == "rehearsal":
            first = "rehearsal engine: numbers are made up, never a result"
            return Judgement(Verdict.REHEARSAL, (first, *broken), notes)
        if broken:
            return Judgement(Verdict.INVALID, (*broken, *doubtful), notes)
        gaps = (*_transfer_gaps(run, point), *self.gaps)
        if doubtful:
            return Judgement(Verdict.SUSPECT, (*doubtful, *gaps), notes)
        return Judgement(Verdict.UNPROVEN if gaps else Verdict.VALID, gaps, notes)


def _canary_gaps(run: Run) -> Iterator[str]:
    """That KV crossed is counted; that it was right, only the canary shows."""
    if not (run.disaggregated and run.uses_nixl) or run.canary == "passed":
        return
    if run.canary == "void":
        yield "the state canary is void: it would not have seen a wrong state (canary.json)"
    else:
        yield f"no state canary ({run.canary or 'canary.json is missing'})"


def _transfer_gaps(run: Run, point: BenchPoint) -> Iterator[str]:
    if run.disaggregated and run.uses_nixl and external_share(point) is None:
        yield "decode's servers told no external token count: KV transfer not shown"


def _accuracy_gaps(run: Run) -> Iterator[str]:
    plan, summary = run.accuracy_plan, run.accuracy
    if run.foreign is not None:
        yield f"result of {run.foreign}: the client's figures alone, no server's and no accuracy"
        return
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


def _notes(run: Run) -> Iterator[str]:
    """Of accuracy without a gate, what would be a fault or a doubt with one."""
    summary = run.accuracy
    if summary is None or gate(run.accuracy_plan, summary) is not Gate.ABSENT:
        return
    if (summary.invalid_rate or 0) > ACCURACY_INVALID.value:
        yield f"accuracy: {summary.invalid_rate:.1%} of the answers hold no number"
    if summary.cut_rate > ACCURACY_CUT.value:
        yield f"accuracy: {summary.cut_rate:.0%} of the answers ended at the token limit"
