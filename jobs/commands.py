"""`python -m jobs run RUN`: the job itself, inside an allocation or on this machine; and what is
asked of runs afterwards: list, show, logs, watch, cancel, state, wait, follow."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from jobs import stop_signals
from jobs.attempts import begin_attempt, is_restart
from jobs.engines import dialect_of
from jobs.environment import raise_open_files
from jobs.errors import RunRefusedError
from jobs.free_nodes import count_nodes
from jobs.hostlist import NodeListError, expand_hostlist
from jobs.landed import look_at_records, set_aside
from jobs.outcome import refusal
from jobs.plain_text import printable
from jobs.record_files import read_object
from jobs.records import RecordError, to_json
from jobs.resume import resume
from jobs.run_file import read_run
from jobs.run_lock import held
from jobs.run_state import RunState, RunWatch
from jobs.runs.arguments import NAMED, add_results
from jobs.runs.cli import add_commands, answer
from jobs.runs.finding import NoSuchRunError, find, find_sweep
from jobs.snapshot import check_snapshot
from jobs.store import RunDir, write_json
from jobs.submission import Submission, grace_s, is_out_of_reach, job_name_in, sbatch_asker
from jobs.waiting import LogTail, Waiting

log = logging.getLogger("jobs")


class PlainFormatter(logging.Formatter):
    """One harmless line a state change, whatever a node's name or a worker's log line holds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with escapes for what could move a cursor."""
        return printable(super().format(record), keep="\n\t")


def main(arguments: Sequence[str]) -> int:
    """0 completed; 1 failed, cancelled, lost or out of time; 2 the run could not begin."""
    given = _parser().parse_args(arguments)
    if "ask" in given:
        return answer(given)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    os.umask(0o077)
    action: Callable[[RunDir, argparse.Namespace], int] = given.action
    raise_open_files()
    try:
        return max(action(run_dir, given) for run_dir in _asked_for(given))
    except (NoSuchRunError, RecordError, RunRefusedError) as error:
        log.error("%s", error)
        return 2
    except OSError as error:  # a file of a run that this user may not read or write
        if error.filename is None or given.command == "run":
            raise
        log.error("%s: %s", error.filename, error.strerror)
        return 2


def _asked_for(given: argparse.Namespace) -> list[RunDir]:
    """The runs that RUN names; `run` and `submit` take a directory as it is."""
    if isinstance(given.run, Path):
        return [RunDir(given.run.resolve())]
    path = Path(given.run)
    if os.sep in given.run and not find_sweep(given.run, path):
        return [RunDir(path.resolve())]
    found = find([given.run], given.results).runs
    if len(found) > 1 and given.command == "follow":
        raise NoSuchRunError(
            f"{given.run} has {len(found)} runs, whose logs would mix: name one of them, or "
            f"python -m jobs watch {given.run}"
        )
    return [RunDir(run.path.resolve()) for run in found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jobs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    job = commands.add_parser("run", help="runs a prepared run directory to its end")
    job.add_argument("run", type=Path, help="the run directory that the launcher made")
    job.add_argument("--snapshot", help="hash of what was submitted, as run.json must have it")
    job.set_defaults(action=lambda run_dir, given: execute(run_dir, given.snapshot))
    for name, action, text in (
        ("state", show_state, "says how a run stands, with Slurm's side, as one JSON line"),
        ("wait", wait, "returns when the run is over"),
        ("follow", follow, "shows the driver's log until the run is over"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("run", metavar="RUN", help=NAMED)
        add_results(command)
        command.set_defaults(action=lambda run_dir, _, action=action: action(run_dir))
    again = commands.add_parser("resume", help="measures what is missing, in a new job")
    again.add_argument("run", metavar="RUN", help=NAMED)
    add_results(again)
    again.add_argument(
        "--accept-code", action="store_true", help="although the launcher's code has changed"
    )
    again.set_defaults(action=run_again)
    submit = commands.add_parser("submit", help="submits a run whose first sbatch failed")
    submit.add_argument("run", type=Path, help="a run directory with a batch.sh")
    submit.add_argument("--said", required=True, help="what that sbatch said")
    submit.set_defaults(action=submit_again)
    add_commands(commands)
    return parser


def execute(run_dir: RunDir, snapshot: str | None = None) -> int:
    """The run; RecordError or RunRefusedError when it cannot begin.

    `snapshot` is the hash of what was submitted, from the batch script.
    """
    # Whoever asks about runs need not wait for all that it takes to run one.
    run_job = importlib.import_module("jobs.pipeline").run_job
    run = read_run(run_dir.run_json)
    dialect_of(run.engine.protocol)
    with stop_signals.held(), held(run_dir):
        if os.path.lexists(run_dir.outcome):
            status = _status(run_dir)
            if not is_restart(run_dir, os.environ):
                raise RunRefusedError(
                    f"{run_dir.path} has ended already ({status}, see {run_dir.outcome}): "
                    "python -m jobs resume measures what is missing, or launch a new run"
                )
            if status == "completed":
                log.info("Slurm started the job again, but the run is complete: nothing to do")
                return 0
        try:
            check_snapshot(run_dir, run.snapshot, snapshot)
        except RunRefusedError as error:
            write_json(run_dir.outcome, to_json(refusal(run, str(error))))
            raise
        run_dir.make_folders()
        landed = look_at_records(run, run_dir)
        for problem in landed.problems.values():
            log.warning("not believed: %s", problem)
        set_aside(run, run_dir, landed)
        attempt = begin_attempt(run_dir, os.environ, len(landed.points))
        outcome = asyncio.run(run_job(run, run_dir, os.environ, attempt))
    return 0 if outcome and outcome.status == "completed" else 1


def run_again(run_dir: RunDir, given: argparse.Namespace) -> int:
    """`resume`."""
    return resume(run_dir, execute, given.accept_code, RunWatch(run_dir))


def submit_again(run_dir: RunDir, given: argparse.Namespace) -> int:
    """`submit`: the job's id on standard output; 3 when Slurm refused, so nothing was in doubt."""
    if not is_out_of_reach(given.said):
        return 3
    script = run_dir.path / "batch.sh"
    limit = grace_s(run_dir)
    asker = sbatch_asker()
    job = Submission(script, job_name_in(script), limit, asker=asker).submit(given.said)
    sys.stdout.write(f"{job}\n")
    return 0


def _status(run_dir: RunDir) -> str:
    """The word in outcome.json; a torn or foreign file has none, and is still an end."""
    try:
        return str(read_object(run_dir.outcome).get("status"))
    except RecordError:
        return "torn or foreign record"


def show_state(run_dir: RunDir) -> int:
    """One look: a JSON line for programs."""
    _checked(run_dir)
    state = RunWatch(run_dir).look()
    job = state.job
    told: dict[str, object] = {"run": str(run_dir.path), "state": state.word}
    told |= {"over": state.over, "text": state.text}
    if job is not None:
        told |= {"job": job.job_id, "slurm": job.state.word, "listed": job.listed}
        told |= {"nodes": _names(job.nodes), "reason": job.reason}
        if state.word == "waiting":
            told["cluster_nodes"] = count_nodes()
    sys.stdout.write(json.dumps(told) + "\n")
    return _code(state)


def _names(nodes: str) -> list[str]:
    """Slurm's node list as names; a list that is broken is told and has none."""
    try:
        return expand_hostlist(nodes)
    except NodeListError as error:
        log.warning("%s", error)
        return []


def wait(run_dir: RunDir) -> int:
    """Until the run is over."""
    _checked(run_dir)
    return _end(run_dir, Waiting(RunWatch(run_dir)))


def follow(run_dir: RunDir) -> int:
    """Until the run is over, its driver's log copied to standard output."""
    tails: dict[Path, LogTail] = {}

    def copy() -> None:
        # A run that is submitted again, without an unfit node, goes on in another job's log.
        with suppress(RecordError):
            logged = Path(str(read_object(run_dir.submission).get("log")))
            for path in (logged, logged.with_suffix(".err")):
                tails.setdefault(path, LogTail(path))
        for tail in tails.values():
            tail.copy(sys.stdout)

    _checked(run_dir)
    code = _end(run_dir, Waiting(RunWatch(run_dir), copy))
    copy()
    return code


def _end(run_dir: RunDir, waiting: Waiting) -> int:
    state = waiting.end()
    waiting.meanwhile()
    if state.word == "lost":
        log.error("%s: %s; see %s", run_dir.path.name, state.text, run_dir.path / "submitit")
    return _code(state)


def _checked(run_dir: RunDir) -> None:
    """RecordError where there is no run."""
    read_object(run_dir.run_json)


def _code(state: RunState) -> int:
    return 0 if state.word == "completed" or not state.over else 1
