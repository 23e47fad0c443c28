"""`python -m jobs list`, which reads as little of this program as it can."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jobs.runs.arguments import RUNS_HELP, answered, command_of, warn
from jobs.runs.finding import NoSuchRunError, find
from jobs.runs.listing import KEYS, list_json, list_text, sort_runs
from jobs.runs.looking import look_once
from jobs.runs.sweeps import sweeps_among, sweeps_text


def main(arguments: Sequence[str]) -> int:
    """The exit status of `list ...`."""
    parser = argparse.ArgumentParser(prog="python -m jobs")
    add_list(parser.add_subparsers(dest="command", required=True))
    return answered(parser.parse_args(arguments), (NoSuchRunError,))


def add_list(commands: Any) -> None:
    """Its options."""
    one = command_of(commands, "list", list_runs, "one row per run, Slurm's state beside ours")
    one.add_argument("runs", nargs="*", metavar="RUN", help=RUNS_HELP)
    one.add_argument("--sort", choices=sorted(KEYS), default="when", help="default: when")
    one.add_argument("--reverse", action="store_true", help="the other way round")
    one.add_argument("--json", action="store_true", help="for machines")


def list_runs(given: argparse.Namespace) -> int:
    """`list`."""
    found = find(given.runs, given.results)
    seen, warnings = look_once(found.runs, brief=True)
    seen = sort_runs(seen, given.sort, given.reverse)
    told = list_json(seen) if given.json else list_text(seen) + sweeps_text(sweeps_among(seen))
    sys.stdout.write(told)
    sys.stdout.flush()
    warn([*found.warnings, *warnings])
    return 0
