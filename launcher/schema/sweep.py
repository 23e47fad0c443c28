"""The group `sweep`: many runs from one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SweepConfig:
    """A multirun (-m): which combinations, in which order, how many jobs at a time."""

    zip: list[list[str]] = field(default_factory=list)
    """Axes that move together, as in [[topology,workload.concurrency]]; the others multiply."""
    skip_invalid: bool = False
    """Whether impossible combinations are left out, and listed, instead of stopping the sweep."""
    rerun: bool = False
    """Whether points that were measured already, of the same deployment and load, run again."""
    order: str = "cheapest"
    """cheapest | as_given. cheapest: by nodes x estimated time."""
    max_jobs: int | None = None
    """Jobs at a time (each waits for an earlier one by --dependency=afterany); null: no limit."""
    table: bool = True
    """Whether a small job writes the sweep's tables after the last one."""
    table_sbatch: dict[str, Any] = field(default_factory=dict)
    """sbatch options of that job, over its own: one task, no GPU, cluster's account ... exclude."""
