"""How long a run may take: an estimate with its assumptions, never a measurement.

A request's time is taken as its own tokens at the speed of one stream, plus the wait for the whole
concurrency's tokens at the deployment's saturated throughput:

    e2e = osl * tpot + concurrency * (isl + osl) / (tokens_per_s_per_gpu * serving GPUs)

and a point as (prompts + warm-up) / concurrency such requests one after another (a closed loop).
With 25,000 tokens/s per GPU and 13 ms it agrees with the points of the vLLM blog (2026-08-06,
Figure 1, 4 x DEP2 + DEP8) within a third, on the long side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.plan import LaunchPlan, Point, build_plan
from launcher.schema import LaunchConfig
from launcher.time_limit import clock, seconds_of

START_SHARE = 3
"""A start is assumed to take this part of its budget where the model says nothing: 1/3."""
GSM8K_QUESTIONS = 1319
SHOT_TOKENS = 200
"""Tokens assumed for one worked example of an accuracy prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds of each phase."""

    start_s: float
    points_s: dict[str, float]
    request_s: dict[str, float]
    """One request of a point, from end to end."""
    accuracy_s: float
    assumptions: str

    @property
    def total_s(self) -> float:
        """The whole job."""
        return self.start_s + sum(self.points_s.values()) + self.accuracy_s

    def document(self) -> dict[str, object]:
        """As the JSON dry run has it."""
        return {
            "total_s": round(self.total_s),
            "start_s": round(self.start_s),
            "points_s": {name: round(value) for name, value in self.points_s.items()},
            "accuracy_s": round(self.accuracy_s),
            "assumptions": self.assumptions,
        }


def estimate(plan: LaunchPlan) -> Estimate | None:
    """The run's time, None where nothing is known of the model's speed on these machines."""
    expected, config = plan.config.model.expected, plan.config
    rate, tpot = expected.tokens_per_s_per_gpu, expected.tpot_ms
    if rate is None or tpot is None or config.engine.device != "cuda":
        return None
    start = expected.start_s
    assumed = "" if start is not None else f"a start of 1/{START_SHARE} of its budget, "
    start = config.cluster.budgets.start_s / START_SHARE if start is None else start
    total = rate * plan.serving_gpus
    requests = {point.name: _request_s(point, tpot / 1000, total) for point in plan.points}
    return Estimate(
        start_s=start,
        points_s={point.name: _point_s(point, requests[point.name]) for point in plan.points},
        request_s=requests,
        accuracy_s=_accuracy_s(config, tpot / 1000, total),
        assumptions=(
            f"{assumed}{rate:g} tokens/s per serving GPU at saturation, {tpot:g} ms a token of one "
            "stream (model.expected)"
        ),
    )


def _request_s(point: Point, tpot_s: float, tokens_per_s: float) -> float:
    inputs, outputs = sum(point.input_range) / 2, sum(point.output_range) / 2
    return outputs * tpot_s + point.concurrency * (inputs + outputs) / tokens_per_s


def _point_s(point: Point, request_s: float) -> float:
    """Its rounds of a closed loop; sent by the clock, at least until the last request is due."""
    rate = point.sending.request_rate
    due_s = point.num_prompts / rate if rate else 0.0
    return max(_rounds(point) * request_s, due_s)


def _rounds(point: Point) -> float:
    return max(1.0, point.num_prompts / point.concurrency) + (
        point.warmup_requests / point.concurrency
    )


def _accuracy_s(config: LaunchConfig, tpot_s: float, tokens_per_s: float) -> float:
    accuracy = config.accuracy
    if accuracy.dataset == "none":
        return 0.0
    questions = (accuracy.num_questions or GSM8K_QUESTIONS) * accuracy.repeats
    length = SHOT_TOKENS * (accuracy.num_shots + 1) + accuracy.max_tokens
    running = min(accuracy.concurrency, questions)
    waves = questions / running
    return waves * accuracy.max_tokens * tpot_s + questions * length / tokens_per_s


def limit_enough(config: LaunchConfig, made: Estimate) -> Iterator[str]:
    """A warning where the job's limit looks too short for all of it."""
    cluster = config.cluster
    limit = seconds_of(cluster.time) or 0
    points = sum(made.points_s.values())
    if cluster.executor == "slurm" and made.total_s > limit - cluster.grace_s:
        yield (
            f"cluster.time={cluster.time}: looks too short: the estimate is {clock(made.total_s)} "
            f"(start {clock(made.start_s)}, {len(made.points_s)} points {clock(points)}, accuracy "
            f"{clock(made.accuracy_s)}; assumed: {made.assumptions}) and the driver ends "
            f"{cluster.grace_s} s earlier; raise it, or ask for fewer points"
        )


def time_enough(config: LaunchConfig) -> Iterator[str]:
    """Warnings where a limit looks too short for the estimate."""
    made, cluster = estimate(build_plan(config)), config.cluster
    if made is None:
        return
    yield from limit_enough(config, made)
    for name, seconds in made.points_s.items():
        if seconds > cluster.budgets.point_s:
            yield (
                f"cluster.budgets.point_s={cluster.budgets.point_s:g}: looks too short for point "
                f"{name}: the estimate is {seconds:.0f} s (assumed: {made.assumptions})"
            )
    timeout = config.workload.request_timeout_s
    slow = {name: seconds for name, seconds in made.request_s.items() if seconds > timeout}
    for name, seconds in slow.items():
        yield (
            f"workload.request_timeout_s={timeout:g}: looks too short for point {name}: one "
            f"request is estimated at {seconds:.0f} s (assumed: {made.assumptions})"
        )
