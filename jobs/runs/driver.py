"""The driver of a local run: who it is, whether it lives, and asking it to end the run."""

from __future__ import annotations

import os
import re
import signal
import socket
from dataclasses import dataclass

from jobs.plain_files import open_plain
from jobs.process_tree import boot_id, start_ticks
from jobs.store import RunDir

LOCK_TEXT = re.compile(
    r"host (?P<host>\S+), pid (?P<pid>\d{1,10})(?:, started (?P<started>\d+), boot (?P<boot>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Driver:
    """The process that works, or worked, on a run.

    `started` is in clock ticks since the boot `boot`: with both, a pid that came back as somebody
    else's is told from ours.
    """

    host: str
    pid: int
    started: int | None
    boot: str | None

    @property
    def here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host == socket.gethostname()

    @property
    def lives(self) -> bool:
        """Whether it is alive on this machine; False where its record cannot prove it."""
        if not self.here or self.started is None or self.boot != boot_id():
            return False
        return start_ticks(self.pid) == self.started

    def terminate(self) -> bool:
        """TERM to exactly this process; False when it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle keeps the number from being given away between the look and the signal.
            if not self.lives:
                return False
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def read_driver(run_dir: RunDir) -> Driver | None:
    """The driver that driver.lock names; None when none began or the file is none of ours."""
    try:
        with open_plain(run_dir.lock) as stream:
            match = LOCK_TEXT.fullmatch(stream.read(400).decode(errors="replace").strip())
    except OSError:
        return None
    if not match:
        return None
    started = int(match["started"]) if match["started"] else None
    return Driver(match["host"], int(match["pid"]), started, match["boot"])
