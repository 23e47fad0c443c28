"""How a run ended: told apart by what happened first, written last."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.allocation import Allocation, utc_now
from jobs.attempts import Attempt
from jobs.errors import JobError
from jobs.records import Outcome, Teardown, to_json
from jobs.run_spec import RunSpec
from jobs.stop_signals import STOP_SIGNALS, let_through
from jobs.store import RunDir, write_last

SETTLE_S = 0.8
"""A failed request may be the first sign of a dead process, and a dead process the first sign of
a cancelled job: the cause may show this much later than its effect."""

LEAVE_S = 2.0
"""What an interrupted phase may take to let go before processes are stopped anyway."""

NEAR_END_S = (90.0, 300.0)

DISK_TROUBLE = {
    errno.ENOSPC: "free some space in cluster.results_dir, or name another one",
    errno.EDQUOT: "your quota in cluster.results_dir is used up",
    errno.EROFS: "cluster.results_dir became read-only: ask the site, or name another one",
    errno.EACCES: "cluster.results_dir may no longer be written by you",
    errno.ENOENT: "the run directory was removed or moved while the run used it",
    errno.ESTALE: "the results' file system went away under the run (stale file handle)",
    errno.EIO: "the results' file system has errors",
}
"""What a file system says, and what to do about it."""

log = logging.getLogger("jobs")


@dataclass(frozen=True, slots=True)
class Ending:
    """The status of outcome.json and its cause."""

    status: str
    cause: str


def listen_for_stop() -> asyncio.Future[signal.Signals]:
    """A future that gets the first stop signal, one that came before this, too; later ones change
    nothing any more."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[signal.Signals] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in STOP_SIGNALS:
        if number != signal.SIGTERM and signal.getsignal(number) == signal.SIG_IGN:
            continue  # nohup, or a shell's background job: whoever started this wants it to live on
        loop.add_signal_handler(number, stop, number)
    let_through()
    return stopped


async def await_end(
    work: asyncio.Task[None],
    death: asyncio.Future[JobError],
    stopped: asyncio.Future[signal.Signals],
    allocation: Callable[[], Allocation | None],
) -> Ending:
    """Which of the three came first: the work's own end, a process's death, or a stop signal."""
    everything: list[asyncio.Future[Any]] = [work, death, stopped]
    await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
    finished = work.done() and not work.cancelled() and work.exception() is None
    if death.done() and not work.done():
        work.cancel()
    if not finished and not stopped.done():
        first: list[asyncio.Future[Any]] = [stopped] if death.done() else [death, stopped]
        await asyncio.wait(first, timeout=SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
    error = work.exception() if work.done() and not work.cancelled() else None
    if not work.done():
        work.cancel()
        await asyncio.wait({work}, timeout=LEAVE_S)
    if finished:
        return Ending("completed", "")
    if stopped.done():
        return _stopped_by(stopped.result(), allocation())
    if death.done():
        then = f"; meanwhile: {error}" if error else ""
        return Ending("failed", f"{death.result()}{then}")
    return Ending("failed", _own_words(error))


def _own_words(error: BaseException | None) -> str:
    if isinstance(error, JobError):
        return str(error)
    if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
        return (
            f"{error.filename or 'a record'} could not be written: {error.strerror}; "
            f"{DISK_TROUBLE[error.errno]}"
        )
    log.error("unexpected error", exc_info=error)
    return f"unexpected {type(error).__name__}: {error} (traceback in the job's output)"


def _stopped_by(number: signal.Signals, allocation: Allocation | None) -> Ending:
    """Cancelled, or out of time when Slurm's own end of the job is near."""
    end = allocation.end_time if allocation else None
    if number in (signal.SIGTERM, signal.SIGUSR2) and end is not None:
        left = end - time.time()
        if left < NEAR_END_S[1] and left < max(NEAR_END_S[0], 0.1 * _length(allocation)):
            return Ending(
                "timed_out",
                f"Slurm's time limit: {number.name} came {left:.0f} s before the job's end; "
                "points written so far are kept; ask for more cluster.time",
            )
    return Ending("cancelled", f"cancelled: the driver received {number.name}")


def _length(allocation: Allocation | None) -> float:
    return allocation.length_s or 0.0 if allocation else 0.0


def refusal(run: RunSpec, cause: str) -> Outcome:
    """The outcome of a run that did not begin."""
    now = utc_now()
    return Outcome(
        run_id=run.run_id,
        status="failed",
        phase="snapshot",
        cause=cause,
        started_at=now,
        ended_at=now,
        points_written=0,
        points_planned=len(run.plan.points),
        attempts=0,
    )


def write_outcome(
    run: RunSpec,
    run_dir: RunDir,
    ending: Ending,
    phase: str,
    attempt: Attempt,
    torn: Teardown,
) -> Outcome:
    """outcome.json, the last file of a run; where it cannot be written, the log has it all."""
    points = run.plan.points
    outcome = Outcome(
        run_id=run.run_id,
        status=ending.status,
        phase=phase,
        cause=ending.cause,
        started_at=attempt.started_at,
        ended_at=utc_now(),
        points_written=sum(run_dir.point(p.index, p.concurrency).exists() for p in points),
        points_planned=len(points),
        attempts=attempt.number,
        teardown=torn,
    )
    try:
        write_last(run_dir, run_dir.outcome, to_json(outcome))
    except OSError as error:
        log.error("%s cannot be written (%s); it would say: %s", run_dir.outcome, error, outcome)
    return outcome
