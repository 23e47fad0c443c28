"""What stands under a table: what the columns divide by, and why rows are not VALID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from analysis.accuracy import describe
from analysis.alike import kind, told_once
from analysis.load import Loaded
from analysis.point_rows import point_names
from analysis.run import Run
from analysis.safetext import printable, shorten

CAUSE_WIDTH = 400
DEFINITIONS = (
    "tok/s/GPU: (input + output tokens of successful requests) / duration / serving GPUs;"
    " tok/s/alloc: the same / allocated GPUs",
    "tok/s/dGPU: output tokens / duration / decode GPUs;"
    " tok/s/pGPU: input tokens / duration / prefill GPUs;"
    " tok/s/user: 1000 / median TPOT in ms",
    "KV ext: prompt tokens that decode took from prefill / prompt tokens;"
    " accuracy +-: half of Wilson's 95 % for one pass over the questions",
)


def legend(loaded: Loaded, frame: pd.DataFrame) -> str:
    """Plain lines, every name in them printable."""
    lines = [*DEFINITIONS, *behind(loaded.runs, frame)]
    lines += [*_remarks(frame, "reasons"), *_remarks(frame, "notes"), *endings(loaded.runs)]
    return "".join(f"{printable(line)}\n" for line in lines)


def behind(runs: Sequence[Run], frame: pd.DataFrame) -> Iterator[str]:
    """What figures rest on: GPUs of each topology, lengths, accuracy and KV of each run."""
    yield from _divisors(runs)
    yield from _ranges(frame)
    yield from _accuracies(runs)
    yield from _transfers(runs)


def _divisors(runs: Iterable[Run]) -> Iterator[str]:
    """Once per topology and set of counts."""
    seen = dict.fromkeys((run.labels.get("topology", run.run_id), _counts(run)) for run in runs)
    for name, counts in seen:
        yield f"GPUs, {name}: {counts}"


def _counts(run: Run) -> str:
    roles = ", ".join(f"{count} {role}" for role, count in sorted(run.role_gpus.items()))
    serving = run.serving_gpus if run.serving_gpus is not None else "unknown"
    allocated = run.allocated_gpus if run.allocated_gpus is not None else "unknown"
    text = f"{serving} serving" + (f" ({roles})" if roles else "") + f", {allocated} allocated"
    if run.segment_asked:
        text += f"; in segments of {run.segment} nodes, {run.segment_asked} did not fit the cluster"
    return text


def _ranges(frame: pd.DataFrame) -> Iterator[str]:
    """The length ranges; a warning when rows drawn from different ones stand together."""
    names = ["range_definition", "range_ratio", "input_range", "output_range"]
    kinds = frame[names].dropna().drop_duplicates().itertuples(index=False)
    texts = [f"{name} {ratio:g}: input {low}, output {high}" for name, ratio, low, high in kinds]
    if texts:
        yield f"lengths drawn from {'; '.join(texts)}"
    if len(texts) > 1:
        yield "rows above have different length ranges: do not join them to one series"


def _accuracies(runs: Iterable[Run]) -> Iterator[str]:
    for run in (run for run in runs if run.foreign is None):
        mark = "rehearsal, " if run.rehearsal else ""
        yield f"accuracy, {run.run_id}: {mark}{describe(run.accuracy_plan, run.accuracy)}"


def _transfers(runs: Iterable[Run]) -> Iterator[str]:
    """What crossed between prefill and decode, by the servers' counters, and the canary's word."""
    for run in runs:
        told = [(point, point.server.kv_bytes) for point in run.points]
        moved = [f"{point.name} {size / 1e6:.1f} MB" for point, size in told if size is not None]
        if run.disaggregated and moved:
            failed = sum(point.server.kv_failed or 0 for point in run.points)
            yield (
                f"KV over NIXL, {run.run_id}: {', '.join(moved)}; {failed:.0f} failed transfers; "
                f"state canary {run.canary or 'missing'}"
            )


def _remarks(frame: pd.DataFrame, column: str) -> Iterator[str]:
    """One line per run, verdict and kind of text, with the points for which it holds."""
    groups: dict[tuple[str, str, str], dict[str, str]] = {}
    rows = zip(frame["run"], frame["verdict"], frame[column], point_names(frame), strict=True)
    for run, verdict, text, point in rows:
        if text:
            head = verdict if column == "reasons" else "note"
            groups.setdefault((run, head, kind(text)), {})[point] = text
    for (run, head, _), told in groups.items():
        yield f"{head}, {run} {','.join(told)}: {told_once(list(told.values()))}"


def endings(runs: Iterable[Run]) -> Iterator[str]:
    """Runs that did not complete, and how far they came; paths in a run's folder begin there."""
    for run in (run for run in runs if run.foreign is None):
        outcome, planned = run.outcome, len(run.planned)
        done = f"{len(run.points)} of {planned or '?'} points"
        if outcome is None:
            yield f"unfinished, {run.run_id}: {done}, no outcome.json: still running, or lost"
        elif not run.ended_well:
            inside = re.sub(rf"[^\s'\"]*/{re.escape(run.path.name)}/", "", outcome.cause)
            cause = shorten(" ".join(inside.split()), CAUSE_WIDTH)
            yield f"{outcome.status}, {run.run_id}: {done}, in {outcome.phase}: {cause}"
