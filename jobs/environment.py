"""The environment of steps: the driver's own, without what Slurm meant for the driver's step."""

from __future__ import annotations

import resource
from collections.abc import Mapping

from jobs.process_tree import MARK_VARIABLE

SLURM_FAMILIES = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SALLOC_", "PMI_", "PMIX_", "PMI2_")

RANK_FAMILIES = ("OMPI_", "MV2_", "VLLM_DP_", "TORCHELASTIC_")
RANK_NAMES = frozenset(
    {
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"),
        *("MASTER_ADDR", "MASTER_PORT", "VLLM_HOST_IP", "VLLM_PORT"),
        *("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
    }
)
"""One process's place among others, left by mpirun, torchrun or an engine in the shell that
launches: no step is that process. vLLM takes VLLM_DP_* where an engine has one rank only (0.33.0
config/parallel.py); what the plan gives a step stands in its own command."""

KEPT = frozenset(
    {
        "SLURM_CONF",
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "SLURM_JOB_NAME",
        "SLURM_JOB_NODELIST",
        "SLURM_NODELIST",
        "SLURM_JOB_NUM_NODES",
        "SLURM_JOB_END_TIME",
        "SLURM_JOB_START_TIME",
        "SLURM_JOB_PARTITION",
        "SLURM_JOB_ACCOUNT",
        "SLURM_JOB_USER",
        "SLURM_JOB_UID",
        "SLURM_CLUSTER_NAME",
        "SLURM_SUBMIT_DIR",
        "SLURM_SUBMIT_HOST",
        "SLURM_WORKING_CLUSTER",
    }
)
"""What identifies the job and the cluster. All other Slurm variables are options to srun: the
batch step's CPU, memory and GPU counts, or a portal's SLURM_EXPORT_ENV=NONE."""


OPEN_FILES = 65536


def raise_open_files() -> None:
    """The soft limit of open files up to 65536, or the hard limit where that is lower.

    srun hands its own limits to the steps; neither the router nor the clients raise theirs, and a
    login shell's 1024 would end them at some 500 streams.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES:
        return
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def step_environment(environ: Mapping[str, str], api_key: str, mark: str) -> dict[str, str]:
    """Variables of every step; the key travels here and nowhere else."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT
        or not (name.startswith((*SLURM_FAMILIES, *RANK_FAMILIES)) or name in RANK_NAMES)
    }
    return {
        **kept,
        "VLLM_API_KEY": api_key,
        "OPENAI_API_KEY": api_key,
        "PYTHONUNBUFFERED": "1",
        MARK_VARIABLE: mark,
    }
