"""The version 1 freezer, which lets Slurm find every process of a step; used when it is there."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.processes import Started, observe

ROOT = Path("/sys/fs/cgroup")


def usable() -> bool:
    """True for root on a machine with a writable version 1 freezer."""
    return os.geteuid() == 0 and os.access(ROOT / "freezer/cgroup.procs", os.W_OK)


def processes_inside(names: Sequence[str]) -> Iterator[Started]:
    """Every process in these nodes' freezer cgroups."""
    for name in names:
        for procs in (ROOT / "freezer" / f"slurm_{name}").rglob("cgroup.procs"):
            for pid in procs.read_text().split():
                found = observe(f"process on {name}", int(pid))
                if found is not None:
                    yield found


def remove(names: Sequence[str]) -> None:
    """The nodes' cgroup folders, emptied before."""
    for name in names:
        for top in ROOT.glob(f"*/slurm_{name}"):
            for folder in sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True):
                folder.rmdir()
            top.rmdir()
