"""The commands over runs and their options; jobs/commands.py hands their arguments here."""

from __future__ import annotations

import argparse
from typing import Any

from jobs.runs.arguments import NAMED, ONE, RUNS_HELP, answered, command_of
from jobs.runs.commands import cancel_runs, show_logs, show_run, watch_runs
from jobs.runs.finding import NoSuchRunError
from jobs.runs.list_command import add_list
from jobs.runs.log_view import LAST_LINES, LogRequestError


def add_commands(commands: Any) -> None:
    """list, show, logs, watch and cancel, beside the commands that are there."""
    add_list(commands)
    one = command_of(commands, "show", show_run, "everything about one run")
    one.add_argument("run", metavar="RUN", help=NAMED)
    one = command_of(commands, "logs", show_logs, "the logs of a run's steps as one")
    one.add_argument("run", metavar="RUN", help=ONE)
    one.add_argument(
        *("--worker", "-w"),
        action="append",
        default=[],
        metavar="W",
        help="only this step, role or pattern (prefill0, decode, 'prefill*', driver); repeatable",
    )
    one.add_argument("--follow", "-f", action="store_true", help="stay until the run is over")
    one.add_argument("--since", metavar="T", help="10m, 2h, or a time as 2026-11-29T20:31")
    one.add_argument("--grep", metavar="RE", help="only lines that match")
    one.add_argument("-i", "--ignore-case", action="store_true", help="for --grep")
    one.add_argument(
        *("--lines", "-n"),
        type=_lines,
        metavar="N",
        help=f"the last N lines, or all (default {LAST_LINES}; all with --since)",
    )
    one.add_argument("--attempt", type=int, metavar="N", help="logs of an earlier attempt")
    one = command_of(commands, "watch", watch_runs, "stays with runs until all have ended")
    one.add_argument("runs", nargs="*", metavar="RUN", help=RUNS_HELP)
    one = command_of(
        commands, "cancel", cancel_runs, "ends runs in order, by their own records' ids"
    )
    one.add_argument("runs", nargs="*", metavar="RUN", help=ONE)
    one.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="DIR",
        help="all runs of a sweep, by its directory or name",
    )
    one.add_argument("--all-mine", action="store_true", help="all of mine; lists them first")
    one.add_argument("--yes", action="store_true", help="with --all-mine: do it")


def answer(given: argparse.Namespace) -> int:
    """The command's exit status; what cannot be answered is one line and 2."""
    return answered(given, (NoSuchRunError, LogRequestError))


def _lines(text: str) -> int:
    """How many lines; 0 stands for all."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a number above 0, or all")
    return int(text)
