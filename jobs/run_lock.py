"""One driver a run directory: the lock it holds while it works, and whether somebody holds it."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import RunRefusedError
from jobs.plain_files import open_plain
from jobs.process_tree import boot_id, start_ticks
from jobs.store import RunDir

TRY_S = 2.0
"""Somebody who only looks whether the lock is held has it for an instant."""


@contextmanager
def held(run_dir: RunDir) -> Iterator[None]:
    """The run directory for this driver alone; RunRefusedError while another one has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(run_dir.lock, flags, 0o600), "r+", encoding="utf-8") as stream:
        until = time.monotonic() + TRY_S
        while not _locked(stream.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > until:
                raise RunRefusedError(
                    f"{run_dir.path} is being run by another driver ({stream.read().strip()})"
                )
            time.sleep(0.1)
        stream.truncate(0)
        stream.write(f"{_this_process()}\n")
        stream.flush()
        yield


def _this_process() -> str:
    """Who works on the run; `cancel` finds exactly this process by it (jobs/runs/driver.py)."""
    pid = os.getpid()
    return f"host {socket.gethostname()}, pid {pid}, started {start_ticks(pid)}, boot {boot_id()}"


def holder(run_dir: RunDir) -> str | None:
    """Who works on the run now, in words; None when nobody does."""
    try:
        with open_plain(run_dir.lock) as stream:
            if _locked(stream.fileno(), fcntl.LOCK_SH):
                return None
            return stream.read(200).decode(errors="replace").strip() or "another driver"
    except OSError:
        return None


def is_being_submitted(run_dir: RunDir) -> bool:
    """Whether a launcher is about to hand the run over: sbatch may take minutes to answer."""
    try:
        with open_plain(run_dir.submitting) as stream:
            return not _locked(stream.fileno(), fcntl.LOCK_SH)
    except OSError:
        return False


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
