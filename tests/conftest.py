"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import signal

from tests.cluster.fixture import slurm_cluster

__all__ = ["slurm_cluster"]

# Begun in the background of a script, this process ignores SIGINT, and whatever it starts would
# too: tests of Ctrl-C need programs that begin as they do at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What importing has left is not looked through again at every collection of garbage."""
    gc.freeze()
