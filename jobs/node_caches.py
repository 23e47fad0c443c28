"""The nodes' compile caches of this run, removed when it is over."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from jobs.allocation import Allocation
from jobs.processes import CODE_DIR, run_aside

CLEAN_S = 10.0
"""What it may take; what is left then goes at the next preflight on that node."""


async def remove_caches(
    base: str, run_id: str, allocation: Allocation, env: Mapping[str, str]
) -> bool:
    """On every node at once; whether it was done within CLEAN_S."""
    line = [sys.executable, "-S", "-m", "jobs.cache_folder", base, run_id]
    if allocation.job_id is not None:
        count = len({node.name for node in allocation.nodes})
        srun = ["srun", "--job-name=cleanup", f"--nodes={count}", f"--ntasks={count}"]
        srun += ["--ntasks-per-node=1", "--overlap", "--cpus-per-task=1", "--mem=0"]
        srun += ["--export=ALL", "--input=none", "env", f"PYTHONPATH={CODE_DIR}"]
        line = [*srun, *line]
    return await run_aside(line, env, CLEAN_S)
