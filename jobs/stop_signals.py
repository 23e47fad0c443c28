"""Signals that ask a run to end, held back until the run can obey them.

Imported first by `python -m jobs`: while a driver reads its own code, hundreds of modules from a
shared file system, a signal would end it without a word. Held back, it is waiting when the run's
handlers stand, and the run ends in order.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)


def hold() -> None:
    """From now on stop signals wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


@contextmanager
def held() -> Iterator[None]:
    """Held back until the run lets them through, and no longer than the block."""
    hold()
    try:
        yield
    finally:
        let_through()


def let_through() -> None:
    """Those that wait, and all later ones, are delivered; children must not inherit the hold."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


if sys.argv[1:2] == ["run"]:
    hold()
