"""`cancel --sweep`: every run of a sweep, and none that its launcher has not started yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs.allocation import utc_now
from jobs.runs.finding import SWEEP_CANCELLED, NoSuchRunError, find, has_runs_to_come
from jobs.store import RunDir, write_json

POLL_S = 0.5
GIVE_UP_S = 120.0
"""A launcher that is told so stops within one sbatch, or one run's end and the sweep's tables."""

Cancel = Callable[[Sequence[RunDir]], int]


def cancel_sweeps(
    homes: Sequence[Path],
    cancel: Cancel,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """0 when every run is over and no launcher starts another one."""
    for home in homes:
        if has_runs_to_come(home):
            _stop(home, say)
    code, done, until = 0, set[Path](), clock() + GIVE_UP_S
    while True:
        coming = [home for home in homes if has_runs_to_come(home)]  # before its runs are listed
        runs = [run for run in _runs_of(homes, coming) if run.path.resolve() not in done]
        if runs:
            code = max(code, cancel(runs))
            done |= {run.path.resolve() for run in runs}
        elif not coming:
            return code
        elif clock() > until:
            for home in coming:
                say(f"{home.name}: its launcher is still at work: end it (Ctrl-C), or ask again")
            return 1
        else:
            sleep(POLL_S)


def _stop(home: Path, say: Callable[[str], None]) -> None:
    try:
        write_json(home / SWEEP_CANCELLED, {"cancelled_at": utc_now()})
    except OSError as error:
        raise NoSuchRunError(f"{home}: its launcher cannot be stopped: {error.strerror}") from error
    say(f"{home.name}: its launcher starts no further runs")


def _runs_of(homes: Sequence[Path], coming: Sequence[Path]) -> list[RunDir]:
    """The runs that there are; a sweep whose launcher is about to start its first has none."""
    try:
        return find([str(home) for home in homes], Path()).runs
    except NoSuchRunError:
        if coming:
            return []
        raise
