"""The commands over runs and their options; jobs/__main__ hands their arguments here."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs.runs.commands import cancel_runs, list_runs, show_logs, show_run, watch_runs
from jobs.runs.finding import NoSuchRunError
from jobs.runs.listing import KEYS
from jobs.runs.log_view import LAST_LINES, LogRequestError, say
from jobs.runs.watching import INTERRUPTED

ONE = "a run directory, its name or the beginning of it, its random end, its job id"
NAMED = f"{ONE}, or a sweep in the same ways (all its runs)"
RUNS_HELP = f"{ONE}, a sweep in the same ways, or a directory of runs; none: all of mine"
EPILOG = """exit status:
  0    good
  1    show, watch: a run ended otherwise than completed; cancel: a run could not be ended
  2    the request cannot be answered: no such run, no such worker, no results directory
  130  watch, logs --follow: ended by Ctrl-C; the runs go on
"""

Action = Callable[[argparse.Namespace], int]


def add_commands(commands: Any) -> None:
    """list, show, logs, watch and cancel, beside the commands that are there."""
    one = _command(commands, "list", list_runs, "one row per run, Slurm's state beside ours")
    one.add_argument("runs", nargs="*", metavar="RUN", help=RUNS_HELP)
    one.add_argument("--sort", choices=sorted(KEYS), default="when", help="default: when")
    one.add_argument("--reverse", action="store_true", help="the other way round")
    one.add_argument("--json", action="store_true", help="for machines")
    one = _command(commands, "show", show_run, "everything about one run")
    one.add_argument("run", metavar="RUN", help=NAMED)
    one = _command(commands, "logs", show_logs, "the logs of a run's steps as one")
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
    one = _command(commands, "watch", watch_runs, "stays with runs until all have ended")
    one.add_argument("runs", nargs="*", metavar="RUN", help=RUNS_HELP)
    one = _command(commands, "cancel", cancel_runs, "ends runs in order, by their own records' ids")
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


def _command(commands: Any, name: str, ask: Action, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_results(command)
    command.set_defaults(ask=ask)
    return command


def add_results(command: argparse.ArgumentParser) -> None:
    """Where names are looked up."""
    command.add_argument(
        *("--results", "-r"),
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where names are looked up: cluster.results_dir of the runs (default ./runs)",
    )


def answer(given: argparse.Namespace) -> int:
    """The command's exit status; what cannot be answered is one line and 2."""
    ask: Action = given.ask
    try:
        return ask(given)
    except (NoSuchRunError, LogRequestError) as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say("\ninterrupted; runs are as they were, or on the way that was asked for before")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`| head`): nothing is wrong, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _lines(text: str) -> int:
    """How many lines; 0 stands for all."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a number above 0, or all")
    return int(text)
