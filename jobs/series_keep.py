"""The time series of a run that is over, kept as one Parquet file beside its lines."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from jobs.processes import run_aside
from jobs.store import RunDir

WORTH_BYTES = 1_000_000
"""Shorter series are read from their lines as fast."""

KEEP_S = 60.0


async def keep_series(
    run_dir: RunDir, env: Mapping[str, str], worth_bytes: int = WORTH_BYTES
) -> bool:
    """False where it should have been done and was not; a program of its own does it, for only
    the analysis knows what the numbers mean."""
    try:
        size = sum(file.stat().st_size for file in run_dir.series.glob("*.jsonl"))
    except OSError:
        return False
    if size < worth_bytes:
        return True
    line = [sys.executable, "-m", "analysis", "series", str(run_dir.path), "--keep"]
    return await run_aside(line, env, KEEP_S)
