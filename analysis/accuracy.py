"""The repeats of a run taken together: a score, its interval, and what the gate says."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.intervals import t_interval, wilson
from analysis.thresholds import ACCURACY_INVALID, COLLAPSE_ACCURACY
from jobs.records import AccuracyRepeat

WORDS = {"gsm8k": "GSM8K", "word_problems": "word problems"}
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class AccuracyPlan:
    """What run.json asks of accuracy; `reference` None means no figure to compare with."""

    dataset: str
    comparable: bool
    repeats: int
    reference: float | None
    tolerance: float

    @property
    def threshold(self) -> float | None:
        """The lowest score that passes: reference - tolerance."""
        return None if self.reference is None else self.reference - self.tolerance


class Gate(StrEnum):
    """What the gate says of the repeats read so far."""

    PASSED = "passed"
    FAILED = "FAILED"
    OPEN = "not decided"
    ABSENT = "not applied"


@dataclass(frozen=True, kw_only=True)
class AccuracySummary:
    """Repeats taken together. `mean` is over repeats; `low`..`high` is Wilson's 95 % for one pass
    over the questions (repeats ask the same ones, so they add no draws); `t_low`..`t_high` is the
    t interval over repeats (None below two)."""

    dataset: str
    comparable: bool
    repeats: int
    questions: int
    answered: int
    correct: int
    invalid: int
    cut: int
    transport_failures: int
    mean: float | None
    low: float | None
    high: float | None
    t_low: float | None
    t_high: float | None
    strict: float | None = None
    """Mean over repeats of the stricter extraction; None unless every repeat has it."""

    @property
    def best(self) -> float:
        """The share that is right if every lost question were; 0 without questions."""
        could = self.correct + self.transport_failures
        return could / self.questions if self.questions else 0.0

    @property
    def invalid_rate(self) -> float | None:
        """Answers without a number / answers."""
        return self.invalid / self.answered if self.answered else None

    @property
    def cut_rate(self) -> float:
        """Answers that ended at the token limit / answers."""
        return self.cut / self.answered if self.answered else 0.0


def summarize(repeats: Sequence[AccuracyRepeat]) -> AccuracySummary | None:
    """The repeats as one score; None without repeats."""
    if not repeats:
        return None
    scores = [repeat.correct / repeat.answered for repeat in repeats if repeat.answered]
    answered = sum(repeat.answered for repeat in repeats)
    right = sum(repeat.correct for repeat in repeats)
    share = wilson(right / len(repeats), answered / len(repeats))
    spread = t_interval(scores)
    stricter = [repeat.strict_accuracy for repeat in repeats]
    return AccuracySummary(
        dataset=repeats[0].dataset,
        comparable=all(repeat.comparable for repeat in repeats),
        repeats=len(repeats),
        questions=sum(repeat.questions for repeat in repeats),
        answered=answered,
        correct=right,
        invalid=sum(repeat.invalid for repeat in repeats),
        cut=sum(repeat.cut for repeat in repeats),
        transport_failures=sum(repeat.transport_failures for repeat in repeats),
        mean=statistics.fmean(scores) if scores else None,
        low=share[0] if share else None,
        high=share[1] if share else None,
        t_low=max(0.0, spread[0]) if spread else None,
        t_high=min(1.0, spread[1]) if spread else None,
        strict=statistics.fmean(s for s in stricter if s is not None)
        if None not in stricter
        else None,
    )


def collapse(summary: AccuracySummary | None) -> str:
    """What a score says that no good model of a comparable run gives; empty without one."""
    if summary is None or summary.mean is None or not summary.comparable:
        return ""
    invalid = summary.invalid_rate or 0.0
    if summary.mean >= COLLAPSE_ACCURACY.value or invalid <= ACCURACY_INVALID.value:
        return ""
    return (
        f"collapse: accuracy {summary.mean:.2f} with {invalid:.0%} of the answers without a number"
        " is the signature of decode reading state before it has arrived (asynchronous scheduling"
        " beside the transfer), not of a weak model: check the engine's release, the state canary"
    )


def gate(plan: AccuracyPlan | None, summary: AccuracySummary | None) -> Gate:
    """FAILED as soon as the repeats read so far are below; PASSED only when all are there.

    Questions that never got an answer are neither right nor wrong: with some lost it never passes,
    and fails only where it would with all of them right.
    """
    if plan is None or plan.threshold is None or not plan.comparable:
        return Gate.ABSENT
    if summary is None or summary.mean is None:
        return Gate.OPEN
    if not summary.comparable:
        return Gate.ABSENT
    most = summary.mean if not summary.transport_failures else summary.best
    if most < plan.threshold - ROUNDING:
        return Gate.FAILED
    whole = summary.repeats >= plan.repeats and not summary.transport_failures
    return Gate.PASSED if whole else Gate.OPEN


def describe(plan: AccuracyPlan | None, summary: AccuracySummary | None) -> str:
    """One line: what was asked, the score with its interval, and the gate."""
    if summary is None:
        if plan is None:
            return "accuracy not run"
        return f"{title(plan.dataset, plan.comparable)}: 0 of {plan.repeats} repeats done"
    named = title(summary.dataset, summary.comparable)
    return f"{named} {_score(summary)} ({_size(summary)}), {_gate_words(plan, summary)}"


def title(dataset: str, comparable: bool) -> str:
    """The data set's name for people; says so when no published figure compares with it."""
    name = WORDS.get(dataset, dataset)
    return name if comparable else f"{name} (not comparable)"


def _score(summary: AccuracySummary) -> str:
    if summary.mean is None or summary.low is None or summary.high is None:
        return "no answers"
    return f"{summary.mean:.4f} +-{(summary.high - summary.low) / 2:.4f}"


def _size(summary: AccuracySummary) -> str:
    if summary.questions % summary.repeats == 0:
        return f"{summary.repeats} x {summary.questions // summary.repeats}"
    return f"{summary.repeats} repeats, {summary.questions} questions"


def _gate_words(plan: AccuracyPlan | None, summary: AccuracySummary) -> str:
    state = gate(plan, summary)
    if plan is None or plan.threshold is None or state is Gate.ABSENT:
        return "no gate"
    words = f"gate >= {plan.threshold:.4g} {state.value}"
    if summary.repeats < plan.repeats:
        words += f" ({summary.repeats} of {plan.repeats} repeats)"
    if summary.transport_failures:
        words += f" ({summary.transport_failures} of {summary.questions} never answered)"
    return words
