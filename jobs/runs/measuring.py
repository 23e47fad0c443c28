"""The measurement that runs now: how far it is, and what is left of it and of the sweep."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.progress import Progress, read_progress
from jobs.runs.facts import RunFacts
from jobs.runs.words import duration, number

POINT = "point "
"""How the phase of a point begins; its name follows."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """The measurement that runs now: its client's own count, and rates from it."""

    name: str
    progress: Progress
    per_s: float | None
    tokens_per_s: float | None
    left_s: float | None
    """An estimate: what is left of this measurement at its rate so far."""


def measuring(facts: RunFacts) -> Measuring | None:
    """How far the current point, or accuracy repeat, is; None between measurements."""
    phase = facts.timeline.phase or ""
    name = phase.removeprefix(POINT)
    if not phase.startswith(POINT) and phase != "accuracy":
        return None
    now = read_progress(facts.run_dir.progress(name)) if name.replace("-", "").isalnum() else None
    if now is None:
        return None
    per_s = now.done / now.elapsed_s if now.done and now.elapsed_s > 0 else None
    tokens = now.tokens / now.elapsed_s if now.tokens and now.elapsed_s > 0 else None
    left = (now.total - now.done) / per_s if per_s else None
    return Measuring(name, now, per_s, tokens, left)


def sweep_left_s(facts: RunFacts, current: Measuring | None) -> tuple[float, float] | None:
    """An estimate of what the sweep still takes, from .. to; None while no rate is known.

    The rest of this point goes at its own rate. The points after it at a request rate that either
    grows with the concurrency (every request takes as long as now: the least) or stays what it is
    (the deployment is saturated: the most).
    """
    now = current if current and current.progress.stage == "measured" else None
    rate, at = _known_rate(facts, now)
    if facts.spec is None or not rate:
        return None
    least = most = 0.0
    for point in facts.spec.plan.points:
        if point.index in facts.points:
            continue
        if now and now.name == point.name and now.left_s is not None:
            least, most = least + now.left_s, most + now.left_s
            continue
        same = point.num_prompts / rate
        scaled = same * at / point.concurrency
        least, most = least + min(same, scaled), most + max(same, scaled)
    return least, most


def _known_rate(facts: RunFacts, now: Measuring | None) -> tuple[float, int]:
    """Requests a second of the point that runs, or of the last one, and its concurrency."""
    plan = facts.spec.plan.points if facts.spec else []
    running = next((point for point in plan if now and point.name == now.name), None)
    if now and now.per_s and running:
        return now.per_s, running.concurrency
    last = facts.points[max(facts.points)] if facts.points else None
    if last is None or not last.completed or not last.duration_s:
        return 0.0, 1
    return last.completed / last.duration_s, last.concurrency


def measuring_text(now: Measuring) -> str:
    """How far the running measurement is."""
    progress = now.progress
    what = "questions" if progress.stage == "questions" else "requests"
    stage = "warm-up, " if progress.stage == "warm-up" else ""
    parts = [f"{now.name}: {stage}{progress.done}/{progress.total} {what}"]
    if progress.failed:
        parts.append(f"{progress.failed} FAILED")
    if now.tokens_per_s is not None:
        parts.append(f"{'' if progress.exact else '~'}{number(now.tokens_per_s)} tok/s so far")
    elif now.per_s is not None:
        parts.append(f"{number(now.per_s, 1)} {what}/s so far")
    if now.left_s is not None:
        parts.append(f"about {duration(now.left_s)} left (estimate)")
    return ", ".join(parts)
