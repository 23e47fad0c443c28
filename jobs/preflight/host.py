"""CPUs, memory and limits that this node grants to a process of the run."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.preflight.finding import Found, failed, passed, skipped, warned

MEMINFO = Path("/proc/meminfo")
INFINIBAND = Path("/sys/class/infiniband")


def host_checks(spec: dict[str, Any], facts: dict[str, Any]) -> Iterator[Found]:
    """Whether what is granted will do. CPUs: the lesser of Slurm's grant and the affinity."""
    granted = spec["granted_cpus"]
    cpus, gpus = min(facts["cpus"], granted or facts["cpus"]), spec["gpus"]
    if spec["needs_gpu"] and cpus < gpus:
        yield warned("CPUs", f"{cpus} for {gpus} GPUs: results will be CPU bound", "1 a GPU")
    else:
        yield passed("CPUs", cpus)
    free, least = facts["free_memory_gb"], spec["min_free_memory_gb"]
    if free is None:
        yield skipped("memory", f"{MEMINFO} does not tell")
    elif free < least:
        yield failed("memory", f"{free} GB available", f"{least} GB")
    else:
        yield passed("memory", f"{free} GB available", f"{least} GB")
    yield files_check(facts["open_files"], spec["open_files"], spec["open_files_now"])
    if spec["needs_gpu"] and INFINIBAND.is_dir() and facts["locked_kib"] is not None:
        yield warned("locked memory", f"{facts['locked_kib']} KiB", "unlimited, for RDMA")


def files_check(limits: list[int | None], needed: int, needed_now: int) -> Found:
    """Open files: servers raise their soft limit to the hard one themselves, router and client
    do not, so `needed_now` must be there as it is. None in `limits` is no limit."""
    soft, hard = limits
    if hard is not None and hard < max(needed, needed_now):
        return failed("open files", f"hard limit {hard}", max(needed, needed_now))
    if soft is not None and soft < needed_now:
        return failed("open files", f"soft limit {soft}", f"{needed_now}, two a stream")
    return passed("open files", "unlimited" if soft is None else soft, max(needed, needed_now))


def host_facts() -> dict[str, Any]:
    """CPUs of this process and of the host, GB of memory, limits (None: no limit)."""
    memory = _meminfo()
    files, locked = resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK
    kib = _limit(resource.getrlimit(locked)[0])
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "host_cpus": os.cpu_count(),
        "memory_gb": memory.get("MemTotal"),
        "free_memory_gb": memory.get("MemAvailable"),
        "open_files": [_limit(value) for value in resource.getrlimit(files)],
        "locked_kib": None if kib is None else kib // 1024,
    }


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _meminfo() -> dict[str, float]:
    try:
        lines = MEMINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {
        word[0].rstrip(":"): round(int(word[1]) * 1024 / 1e9, 1)
        for word in words
        if len(word) > 1 and word[1].isdigit()
    }
