"""`python -m analysis accuracy`: the questions of a run repeat by repeat, pooled, and against the
model's reference and a baseline run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.accuracy import AccuracySummary, Gate, collapse, gate, title
from analysis.errors import AnalysisError
from analysis.intervals import newcombe, wilson
from analysis.load import load
from analysis.run import Run
from analysis.safetext import printable
from analysis.saving import warn
from jobs.records import AccuracyRepeat

HEAD = (
    "repeat",
    "answered",
    "right",
    "accuracy",
    "95 % (Wilson)",
    "strict",
    "invalid",
    "lost",
    "cut",
)
PROTOCOL = ("endpoint", "extraction", "num_shots", "max_tokens", "temperature", "stop")
"""What makes two scores of one data set comparable, besides the questions."""
EPILOG = """
strict: the number after "####" or "answer is", sign and decimals kept; accuracy: vLLM's own
extraction, the last run of digits. lost: never answered, not scored.

exit status:
  0  of every run that was asked: the gate passed, or none applies (it says so)
  1  a gate failed or is not decided, questions were lost, a collapse, below the baseline; or no
     run was asked
  2  the request cannot be answered
"""


@dataclass(frozen=True)
class Standing:
    """What is told of one run, and whether it is well."""

    lines: tuple[str, ...]
    good: bool


def main(argv: Sequence[str]) -> int:
    """The exit status; AnalysisError for a request that cannot be answered."""
    options = _parser().parse_args(argv)
    loaded = load(options.runs)
    base = _baseline(options.baseline) if options.baseline else None
    for warning in loaded.warnings:
        warn(f"warning: {warning}")
    asked = [run for run in loaded.runs if run.repeats and run.accuracy_from is None]
    told = [standing(run, base) for run in asked]
    for one in told:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in (*one.lines, "")))
    if not told:
        warn("error: none of these runs has answers (accuracy/*.json)")
    return int(not told or not all(one.good for one in told))


def standing(run: Run, baseline: Run | None) -> Standing:
    """One run's repeats and what they come to."""
    summary = run.accuracy
    assert summary is not None
    lines = [f"{run.run_id}: {title(summary.dataset, summary.comparable)}"]
    rows = [HEAD, *(_row(repeat) for repeat in run.repeats), _pooled(run.repeats)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    lines += [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    state = gate(run.accuracy_plan, summary)
    good = state in (Gate.PASSED, Gate.ABSENT) and not summary.transport_failures
    lines += _means(summary)
    lines.append(f"  gate: {_gate(run, state)}")
    if fallen := collapse(summary):
        lines.append(f"  {fallen}")
        good = False
    if baseline is not None and baseline.accuracy is not None:
        words, below = _against(run, baseline)
        lines.append(f"  against {baseline.run_id}: {words}")
        good = good and not below
    return Standing(tuple(lines), good)


def _row(repeat: AccuracyRepeat) -> tuple[str, ...]:
    ends = wilson(repeat.correct, repeat.answered)
    return (
        str(repeat.repeat), str(repeat.answered), str(repeat.correct), _share(repeat.accuracy),
        f"{ends[0]:.4f} .. {ends[1]:.4f}" if ends else "-", _share(repeat.strict_accuracy),
        _of(repeat.invalid, repeat.answered), str(repeat.transport_failures),
        _of(repeat.cut, repeat.answered),
    )  # fmt: skip


def _pooled(repeats: Sequence[AccuracyRepeat]) -> tuple[str, ...]:
    """All answers together; their interval is in the line of means, for one pass."""
    answered, right = (sum(getattr(r, name) for r in repeats) for name in ("answered", "correct"))
    return (
        "pooled", str(answered), str(right), _share(right / answered if answered else None), "", "",
        _of(sum(r.invalid for r in repeats), answered),
        str(sum(r.transport_failures for r in repeats)), _of(sum(r.cut for r in repeats), answered),
    )  # fmt: skip


def _means(summary: AccuracySummary) -> Iterator[str]:
    if summary.mean is None or summary.low is None or summary.high is None:
        yield "  no answers"
        return
    yield (
        f"  mean over repeats {summary.mean:.4f}; 95 % for one pass over the questions"
        f" {summary.low:.4f} .. {summary.high:.4f} (binomial, Wilson)"
    )
    if summary.t_low is not None and summary.t_high is not None:
        yield f"  95 % over repeats {summary.t_low:.4f} .. {summary.t_high:.4f} (t)"
    if summary.strict is not None:
        yield f"  stricter extraction {summary.strict:.4f}"


def _gate(run: Run, state: Gate) -> str:
    plan, summary = run.accuracy_plan, run.accuracy
    if plan is None or plan.threshold is None or summary is None:
        return "none: the model has no reference"
    if state is Gate.ABSENT:
        return "none: not comparable with the reference"
    words = f"{plan.reference:g} - {plan.tolerance:g} = {plan.threshold:.4g}: {state.value}"
    if summary.transport_failures:
        words += f"; {summary.transport_failures} questions never got an answer: run it again"
    return words


def _asked_otherwise(run: Run, baseline: Run) -> str:
    """How the questions of two runs were put differently; empty where they were not."""
    sides = (run.repeats[0], baseline.repeats[0])
    told = [{key: side.protocol.get(key) for key in PROTOCOL} for side in sides]
    told = [one | {"questions": side.questions} for one, side in zip(told, sides, strict=True)]
    return ", ".join(f"{key} {told[0][key]}, there {told[1][key]}"
                     for key in told[0] if told[0][key] != told[1][key])  # fmt: skip


def _against(run: Run, baseline: Run) -> tuple[str, bool]:
    """The difference to a baseline with its interval, and whether it is shown to be below."""
    summary, base = run.accuracy, baseline.accuracy
    assert summary is not None
    assert base is not None
    if summary.dataset != base.dataset:
        return f"asked {base.dataset}, not {summary.dataset}: not compared", False
    if otherwise := _asked_otherwise(run, baseline):
        return f"asked otherwise ({otherwise}): not compared", False
    sides = [(side.mean, side.low, side.high) for side in (base, summary)]
    known = [(m, lo, hi) for m, lo, hi in sides if None not in (m, lo, hi)]
    if len(known) < 2 or summary.mean is None or base.mean is None:
        return "no answers on a side", False
    first, second = ((m or 0.0, lo or 0.0, hi or 0.0) for m, lo, hi in known)
    low, high = newcombe(first, second)
    word = "BELOW it" if high < 0 else "above it" if low > 0 else "no difference shown"
    return f"{summary.mean - base.mean:+.4f}, 95 % {low:+.4f} .. {high:+.4f}: {word}", high < 0


def _baseline(path: Path) -> Run:
    runs = [run for run in load([path]).runs if run.repeats]
    if len(runs) != 1:
        raise AnalysisError(f"--baseline {path}: {len(runs)} runs with answers, one is needed")
    return runs[0]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _of(count: int, whole: int) -> str:
    return f"{count} ({count / whole:.1%})" if whole else str(count)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis accuracy",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--baseline", type=Path, metavar="RUN", help="such as an aggregated run")
    return parser
