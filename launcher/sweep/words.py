"""What a sweep says of itself on the terminal, besides its summary."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from launcher.diagnosis import shared_first, told_apart
from launcher.plain_text import counted
from launcher.sweep.checks import Sweep
from launcher.sweep.record import SweepRecord


def warnings(sweep: Sweep) -> Iterator[str]:
    """Warnings of combinations, those of all of them once and bare, then those of jobs."""
    made, names = sweep.made, told_apart(sweep.combinations)
    alone = {names[member.number]: made.warnings[member.number] for member in made.members}
    yield from shared_first(alone)
    yield from dict.fromkeys(text for texts in made.whole.values() for text in texts)


def end_line(record: SweepRecord, codes: Sequence[int]) -> str:
    """How the runs ended; `codes`: theirs, the tables' last."""
    bad = sum(bool(code) for code in codes[:-1])
    runs = len(codes) - 1
    text = f"{bad} of {counted(runs, 'run')} did not end well" if bad else "all runs ended well"
    text = text if runs else "nothing was left to be run"
    return f"{text}; tables in {record.path}/table.{{txt,md,csv}}\n"


def stopped_line(record: SweepRecord) -> str:
    """What a Ctrl-C left, and how to take it back."""
    taken = sum(entry.job_id is not None for entry in record.asked)
    left = sum(entry.state == "planned" for entry in record.asked)
    home = shlex.quote(str(record.path))
    return (
        f"stopped: {counted(taken, 'job')} submitted, {left} not; no job writes the tables; to "
        f"take them back: python -m jobs cancel {home}\n"
    )


def watch_line(record: SweepRecord) -> str:
    """The commands that show the sweep."""
    home = shlex.quote(str(record.path))
    return f"watch: python -m jobs watch {home}; all of it: python -m jobs show {home}\n"


def table_line(record: SweepRecord) -> str:
    """Who writes the tables, and how to see them before."""
    by_hand = f"python -m analysis table {record.path}"
    if record.table_error:
        return f"no table job: {record.table_error}; when all has ended: {by_hand}\n"
    if record.table_job:
        return (
            f"tables: job {record.table_job} writes them there at the end; until then: {by_hand}\n"
        )
    return f"tables: {by_hand}\n"
