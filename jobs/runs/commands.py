"""What each command over runs does: from parsed arguments to an exit status."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from jobs.plain_text import printable
from jobs.runs.arguments import warn
from jobs.runs.cancelling import Cancelling
from jobs.runs.facts import read_facts
from jobs.runs.finding import (
    NoSuchRunError,
    all_mine,
    find,
    find_one,
    find_sweep,
    has_runs_to_come,
    sweep_of,
)
from jobs.runs.listing import list_text, sort_runs
from jobs.runs.log_view import (
    LAST_LINES,
    Printer,
    RunLogs,
    Wanted,
    follow_lines,
    pattern_of,
    printer_for,
    since_of,
)
from jobs.runs.looking import Watcher, look_once
from jobs.runs.showing import show_text
from jobs.runs.sweep_cancelling import cancel_sweeps
from jobs.runs.sweeps import read_sweep, sweep_text
from jobs.runs.watching import Watch
from jobs.runs.words import INTERRUPTED, say
from jobs.store import RunDir


def _show_sweep(home: Path) -> int:
    seen, warnings = look_once(find([str(home)], home).runs, brief=True)
    sweep = read_sweep(home, seen)
    if sweep is None:
        raise NoSuchRunError(f"{home}: its sweep.json cannot be read")
    sys.stdout.write(sweep_text(sweep) + list_text(sort_runs(seen, "when", False)))
    sys.stdout.flush()
    warn(warnings)
    return int(any(one.standing.over and not one.standing.good for one in seen))


def show_run(given: argparse.Namespace) -> int:
    """`show`: 1 when the run, or one of a sweep's, ended otherwise than completed."""
    home = find_sweep(given.run, given.results)
    if home is not None:
        return _show_sweep(home)
    run = find_one(given.run, given.results)
    (one,), warnings = look_once([run])
    sys.stdout.write(show_text(one))
    sys.stdout.flush()
    warn([warning for warning in warnings if warning not in one.facts.warnings])
    return 1 if one.standing.over and not one.standing.good else 0


def show_logs(given: argparse.Namespace) -> int:
    """`logs`."""
    now = time.time()
    since = since_of(given.since, now) if given.since else None
    last = given.lines if given.lines is not None else (None if since else LAST_LINES)
    wanted = Wanted(
        workers=given.worker,
        pattern=pattern_of(given.grep, given.ignore_case) if given.grep else None,
        since=since,
        last=None if last == 0 else last,
        attempt=given.attempt,
    )
    run = find_one(given.run, given.results)
    logs = RunLogs(read_facts(run), wanted)
    lines = logs.so_far(given.follow)
    if not logs.files and not given.follow:
        names = ", ".join(logs.names()) or "none yet"
        asked = f" of {', '.join(given.worker)}" if given.worker else ""
        raise NoSuchRunError(f"{given.run}: no log{asked}; there are: {names}")
    printer = printer_for(logs, sys.stdout, Console().color_system is not None)
    for line in lines:
        printer.write(line)
    sys.stdout.flush()
    if given.follow:
        return _follow(run, logs, printer)
    return 0


def _follow(run: RunDir, logs: RunLogs, printer: Printer) -> int:
    watcher = Watcher([run])
    asked_at = 0.0

    def over() -> bool:
        nonlocal asked_at
        if time.monotonic() - asked_at > 10.0:
            asked_at = time.monotonic()
            watcher.ask_slurm()
        return watcher.look()[0].standing.over

    try:
        follow_lines(logs, printer, over)
    except KeyboardInterrupt:
        say("\nthe run goes on")
        return INTERRUPTED
    say(f"the run is over: {watcher.look()[0].standing.text}")
    return 0


def watch_runs(given: argparse.Namespace) -> int:
    """`watch`; without names those of mine that have not ended."""
    found = find(given.runs, given.results)
    warn(found.warnings)
    living: list[RunDir] = found.runs
    if not given.runs:
        seen, _ = look_once(found.runs, brief=True)
        living = [one.facts.run_dir for one in seen if not one.standing.over]
        if not living:
            say(f"all {len(seen)} runs in {given.results} have ended: nothing to watch")
            return 0
    known = {run.path.resolve() for run in found.runs}

    def again() -> Sequence[RunDir]:
        """Those, and runs that were made since."""
        try:
            now = find(given.runs, given.results).runs
        except NoSuchRunError:
            return living
        for run in now:
            if run.path.resolve() not in known:
                known.add(run.path.resolve())
                living.append(run)
        return living

    homes = [home for word in given.runs if (home := find_sweep(word, given.results))]
    if not given.runs:
        homes = [home for run in living if (home := sweep_of(run))]

    def more_to_come() -> bool:
        return any(has_runs_to_come(home) for home in homes)

    return Watch(again, Console(), more_to_come).until_the_end()


def cancel_runs(given: argparse.Namespace) -> int:
    """`cancel`."""
    if given.all_mine and (given.runs or given.sweep):
        raise NoSuchRunError("--all-mine stands alone: name runs, or say --all-mine")
    if given.all_mine:
        return _cancel_all(given)
    if not given.runs and not given.sweep:
        raise NoSuchRunError("name runs, or say --sweep DIR, or --all-mine")
    single = [_one_to_cancel(word, given.results) for word in given.runs]
    homes = []
    for folder in given.sweep:
        home = find_sweep(folder, given.results) or Path(folder)
        if not home.is_dir():
            raise NoSuchRunError(f"--sweep {folder}: no such directory, and no sweep of this name")
        homes.append(home.resolve())
    code = _cancel(single) if single else 0
    return max(code, cancel_sweeps(homes, _cancel, _tell)) if homes else code


def _one_to_cancel(word: str, results: Path) -> RunDir:
    try:
        return find_one(word, results)
    except NoSuchRunError as error:
        hint = [f"to end all of them: cancel --sweep {word}"] if Path(word).is_dir() else []
        raise NoSuchRunError(error.text, (*error.rows, *hint)) from None


def _cancel_all(given: argparse.Namespace) -> int:
    found = all_mine(given.results)
    warn(found.warnings)
    seen, _ = look_once(found.runs, brief=True)
    living = [one for one in seen if not one.standing.over]
    sys.stdout.write(list_text(living))
    sys.stdout.flush()
    if not living:
        return 0
    if not given.yes:
        say(f"these {len(living)} runs would be cancelled: say --all-mine --yes to do it")
        return 2
    return _cancel([one.facts.run_dir for one in living])


def _cancel(runs: Sequence[RunDir]) -> int:
    unique = list({run.path.resolve(): run for run in runs}.values())
    return Cancelling(unique, _tell).until_ended()


def _tell(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()
