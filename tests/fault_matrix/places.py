"""Where rows run: what such a place needs, and what goes on beside it.

Places of one lane follow each other, the two lanes run side by side: rows on Slurm mostly wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster import Cluster
from tests.engine import ENGINE_ENV
from tests.fault_matrix import disk_rows, engine_rows, local_rows, slurm_ready, slurm_rows
from tests.fault_matrix.row import Row


@dataclass(frozen=True, kw_only=True)
class Place:
    """One table of the page."""

    title: str
    rows: tuple[Row, ...]
    lane: str
    limit_s: float
    """Seconds after which a row of it is ended and counts as failed."""
    lacks: Callable[[], str] = str
    """What this machine does not have and its rows need; empty: nothing."""
    ready: Callable[[], None] = lambda: None
    """Called before each row: what the row before may have left behind is put right."""
    nice: int = 0
    """A place that computes leaves the processors to those that are timed more closely."""


def _no_root() -> str:
    return "" if os.geteuid() == 0 else "root (mounts and network namespaces)"


def _no_slurm() -> str:
    installed = Cluster().installed()
    return _no_root() or ("" if installed else "a Slurm: python -m tests.cluster install")


def _no_engine() -> str:
    there = (ENGINE_ENV / "bin" / "vllm").exists()
    return "" if there else f"the engine's environment at {ENGINE_ENV}: make engine-env"


PLACES: tuple[Place, ...] = (
    Place(
        title="This machine, rehearsal workers",
        rows=local_rows.ROWS,
        lane="here",
        limit_s=240,
    ),
    Place(
        title="The results' disk, rehearsal workers",
        rows=disk_rows.ROWS,
        lane="here",
        limit_s=240,
        lacks=_no_root,
    ),
    Place(
        title="A real Slurm, rehearsal workers on 4 nodes",
        rows=slurm_rows.ROWS,
        lane="slurm",
        limit_s=600,
        lacks=_no_slurm,
        ready=slurm_ready.make_whole,
    ),
    Place(
        title="The real vLLM on a CPU",
        rows=engine_rows.ROWS,
        lane="here",
        limit_s=1200,
        lacks=_no_engine,
        nice=10,
    ),
)
