"""What the commands over runs have in common: how runs are named, and what is said of mistakes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.runs.finding import NoSuchRunError
from jobs.runs.words import INTERRUPTED, say

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


def command_of(commands: Any, name: str, ask: Action, text: str) -> argparse.ArgumentParser:
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


def answered(given: argparse.Namespace, wrong: tuple[type[Exception], ...]) -> int:
    """The command's exit status; what cannot be answered (`wrong`) is one line and 2."""
    ask: Action = given.ask
    try:
        return ask(given)
    except wrong as error:
        # Its several lines are its own: what was typed and names of files are plain in it.
        say(f"error: {error}", keep="\n" if isinstance(error, NoSuchRunError) else "")
        return 2
    except KeyboardInterrupt:
        say("\ninterrupted; runs are as they were, or on the way that was asked for before")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`| head`): nothing is wrong, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        say(f"error: {error.filename}: {error.strerror}")
        return 2


def warn(warnings: Sequence[str]) -> None:
    """One line each beside the answer."""
    for warning in warnings:
        say(f"warning: {warning}")
