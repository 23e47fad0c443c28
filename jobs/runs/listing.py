"""`list`: one row per run, Slurm's word beside ours."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jobs.runs.finding import short_name, sweep_of
from jobs.runs.looking import Seen
from jobs.runs.words import clock, columns

HEAD = ("when", "run", "label", "job", "state", "Slurm", "points", "")

ORDER = (
    *("queued", "starting", "sweep", "accuracy", "ending", "unknown"),
    *("lost", "failed", "timed_out", "cancelled", "completed"),
)

KEYS: dict[str, Callable[[Seen], Any]] = {
    "when": lambda one: (one.facts.created or 0.0, one.facts.name),
    "label": lambda one: one.facts.label,
    "job": lambda one: (len(one.facts.submission.job_id), one.facts.submission.job_id),
    "state": lambda one: ORDER.index(one.standing.word) if one.standing.word in ORDER else -1,
    "points": lambda one: len(one.facts.points),
}
"""What --sort can sort by; runs that are equal in it stay in the order of their times."""


def sort_runs(seen: Sequence[Seen], key: str, reverse: bool) -> list[Seen]:
    """The rows in order; by time the newest comes last, next to the prompt."""
    return sorted(sorted(seen, key=KEYS["when"]), key=KEYS[key], reverse=reverse)


def list_text(seen: Sequence[Seen]) -> str:
    """The table; "no runs" when there is none."""
    if not seen:
        return "no runs\n"
    ends = Counter(short_name(one.facts.run_dir) for one in seen)
    rows = [HEAD, *(_row(one, ends) for one in seen)]
    return "\n".join(columns(rows, right=(6,))) + "\n"


def _row(one: Seen, ends: Counter[str]) -> tuple[str, ...]:
    facts, standing = one.facts, one.standing
    short = short_name(facts.run_dir)
    executor = facts.submission.executor
    job = facts.submission.job_id if executor == "slurm" else executor or "-"
    return (
        clock(facts.created),
        facts.name if ends[short] > 1 else short if short in facts.name else facts.name,
        facts.label or "-",
        job,
        standing.text,
        standing.slurm or "-",
        f"{len(facts.points)}/{facts.planned}" if facts.spec else "-",
        _note(one),
    )


def _note(one: Seen) -> str:
    parts = ["REHEARSAL"] if one.facts.spec and one.facts.spec.engine.rehearsal else []
    if one.facts.spec is None:
        parts.append("run.json cannot be read")
    if one.standing.remark:
        mark = "DISAGREE: " if one.standing.disagrees else ""
        parts.append(mark + _short(one.standing.remark))
    return "; ".join(parts)


def _short(text: str, width: int = 160) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def list_json(seen: Sequence[Seen]) -> str:
    """The same for machines: one JSON array."""
    return json.dumps([row_json(one) for one in seen], indent=1) + "\n"


def row_json(one: Seen) -> dict[str, Any]:
    """One run as `list --json` has it; `created` is UTC, null where a fact is not known."""
    facts, standing = one.facts, one.standing
    job = standing.state.job
    created = facts.created
    return {
        "run": str(facts.run_dir.path),
        "name": facts.name,
        "label": facts.label,
        "sweep": home.name if (home := sweep_of(facts.run_dir)) else None,
        "created": _utc(created),
        "executor": facts.submission.executor or None,
        "job_id": facts.submission.job_id or None,
        "state": standing.word,
        "text": standing.text,
        "over": standing.over,
        "slurm": standing.slurm or None,
        "slurm_reason": job.reason if job and job.reason else None,
        "disagrees": standing.disagrees,
        "remark": standing.remark,
        "points_landed": len(facts.points),
        "points_planned": facts.planned if facts.spec else None,
        "rehearsal": facts.spec.engine.rehearsal if facts.spec else None,
        "warnings": facts.warnings,
    }


def _utc(at: float | None) -> str | None:
    if at is None:
        return None
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="seconds")
