"""What `watch` draws: per run the phase, per worker its start-up, per point its progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobs.runs.finding import short_name
from jobs.runs.looking import Seen
from jobs.runs.measuring import Measuring, measuring, measuring_text, sweep_left_s
from jobs.runs.timeline import StepStory
from jobs.runs.words import clock, duration, number

STYLES = {
    **dict.fromkeys(("completed",), "green"),
    **dict.fromkeys(("failed", "lost", "timed_out", "cancelled"), "bold red"),
    **dict.fromkeys(("unknown", "ending", "queued"), "yellow"),
}
BAR_WIDTH = 24
FULL_RUNS = 4
"""Up to so many living runs are drawn with all their parts; more of them with two lines each."""


def watch_view(seen: Sequence[Seen], now: float) -> RenderableType:
    """All runs; finished ones take one line."""
    living = sum(not one.standing.over for one in seen)
    parts: list[RenderableType] = []
    for one in seen:
        parts.append(_title(one, now))
        if not one.standing.over:
            parts += _compact(one) if living > FULL_RUNS else _full(one)
    parts.append(Text(f"{clock(now)}  Ctrl-C ends the watching, not the runs", style="dim"))
    return Group(*parts)


def _title(one: Seen, now: float) -> Text:
    facts, standing = one.facts, one.standing
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(f"{short_name(facts.run_dir)} ", style="bold")
    title.append(f"{facts.label}  ")
    if facts.submission.executor == "slurm":
        title.append(f"job {facts.submission.job_id} {standing.slurm}  ", style="dim")
    title.append(standing.text, style=STYLES.get(standing.word, "cyan"))
    if facts.planned and standing.over:
        title.append(f"  {len(facts.points)}/{facts.planned} points")
    if facts.created and not standing.over:
        title.append(f"  {duration(now - facts.created)} since submission", style="dim")
    if facts.spec and facts.spec.engine.rehearsal:
        title.append("  REHEARSAL", style="yellow")
    if standing.remark:
        mark = "DISAGREE: " if standing.disagrees else ""
        title.append(f"  {mark}{standing.remark}", style="red" if standing.disagrees else "")
    return title


def _compact(one: Seen) -> list[RenderableType]:
    now = measuring(one.facts)
    return [_measuring_line(now)] if now else []


def _full(one: Seen) -> list[RenderableType]:
    parts: list[RenderableType] = list(_workers(one))
    table = Table.grid(padding=(0, 2))
    for _ in range(6):
        table.add_column(no_wrap=True)
    for index in sorted(one.facts.points):
        point = one.facts.points[index]
        total = point.total_input_tokens + point.total_output_tokens
        rate = total / point.duration_s if point.duration_s else None
        table.add_row(
            f"  {point.name}",
            f"{point.completed}/{point.num_prompts}",
            f"{number(rate)} tok/s",
            f"TTFT p50 {number(point.ttft_ms.median, 1)} ms",
            f"TPOT p50 {number(point.tpot_ms.median, 2)} ms",
            Text(f"{point.failed} FAILED", style="bold red") if point.failed else "",
        )
    if one.facts.points:
        parts.append(table)
    now = measuring(one.facts)
    if now:
        parts.append(_measuring_line(now))
    left = sweep_left_s(one.facts, now) if one.standing.word == "sweep" else None
    if left is not None:
        parts.append(Text(f"  {_left_text(one, left)}", style="dim"))
    return parts


def _left_text(one: Seen, left: tuple[float, float]) -> str:
    """What the sweep still takes."""
    missing = one.facts.planned - len(one.facts.points)
    low, high = (duration(seconds) for seconds in left)
    spread = low if low == high else f"{low} to {high}"
    return f"{missing} of {one.facts.planned} points to go, about {spread} (estimate)"


def _measuring_line(now: Measuring) -> Table:
    line = Table.grid(padding=(0, 2))
    line.add_column(no_wrap=True, width=BAR_WIDTH + 2)
    line.add_column(no_wrap=True)
    bar = ProgressBar(total=now.progress.total, completed=now.progress.done, width=BAR_WIDTH)
    line.add_row(Group(bar), measuring_text(now))
    return line


def _workers(one: Seen) -> Iterator[Text]:
    """While it starts, one line for each stretch of workers that are equally far."""
    facts = one.facts
    if one.standing.word != "starting" or facts.timeline.phase != "start" or facts.spec is None:
        return
    workers = facts.spec.plan.workers
    rows = [(w.role, *_at(facts.timeline.steps.get(w.name)), w.name) for w in workers]
    for (_, at, style), group in groupby(rows, key=lambda row: row[:3]):
        names = [row[3] for row in group]
        shown = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)})"
        yield Text(f"  {shown}: {at}", style=style)


def _at(story: StepStory | None) -> tuple[str, str]:
    """How far one worker is, and how that is drawn."""
    if story is None:
        return "not started", "dim"
    if story.died:
        return story.died, "bold red"
    if story.start_up == "ready":
        return "ready", "green"
    return story.start_up or "launch", "cyan"
