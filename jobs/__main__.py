"""`python -m jobs run RUN`: the job itself, inside an allocation or on this machine."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobs.engines import dialect_of
from jobs.errors import RunRefusedError
from jobs.pipeline import run_job
from jobs.records import RecordError
from jobs.run_file import read_run
from jobs.store import RunDir

log = logging.getLogger("jobs")


def main(arguments: Sequence[str]) -> int:
    """0 completed; 1 failed, cancelled or out of time; 2 the run could not begin."""
    parser = argparse.ArgumentParser(prog="python -m jobs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="runs a prepared run directory to its end")
    command.add_argument("run", type=Path, help="the run directory that the launcher made")
    given = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s"
    )
    os.umask(0o077)
    try:
        return execute(RunDir(given.run.resolve()))
    except (RecordError, RunRefusedError) as error:
        log.error("%s", error)
        return 2


def execute(run_dir: RunDir) -> int:
    """The run; RecordError or RunRefusedError when it cannot begin."""
    run = read_run(run_dir.run_json)
    dialect_of(run.engine.protocol)
    with held(run_dir):
        if run_dir.outcome.exists():
            raise RunRefusedError(
                f"{run_dir.path} has ended already ({_status(run_dir)}, see {run_dir.outcome}): "
                "launch a new run instead"
            )
        run_dir.make_folders()
        outcome = asyncio.run(run_job(run, run_dir, os.environ))
    return 0 if outcome.status == "completed" else 1


def _status(run_dir: RunDir) -> str:
    """The word in outcome.json; a torn or foreign file has none, and is still an end."""
    try:
        data = json.loads(run_dir.outcome.read_text(encoding="utf-8"))
    except ValueError:
        return "torn record"
    return str(data.get("status")) if isinstance(data, dict) else "foreign record"


@contextmanager
def held(run_dir: RunDir) -> Iterator[None]:
    """The run directory for this driver alone; RunRefusedError while another one has it."""
    with run_dir.lock.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            raise RunRefusedError(
                f"{run_dir.path} is being run by another driver ({stream.read().strip()})"
            ) from None
        stream.truncate(0)
        stream.write(f"host {socket.gethostname()}, pid {os.getpid()}\n")
        stream.flush()
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
