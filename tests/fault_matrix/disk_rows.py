"""Faults of the results' file system: a small one of our own, mounted for the row (root only)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.stage import Stage, two_points


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[Path]:
    """A tmpfs that is gone afterwards."""
    at.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(at))
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=False)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def disk_full(folder: Path) -> Seen:
    with small_disk(folder / "disk", 8) as disk:
        stage = Stage(disk, two_points(prompts=240))
        stage.reach("point c8")
        with (disk / "filler").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(b"x" * 4096)
        seen = stage.seen()
        return replace(seen, notice_s=None, points_before=1)


def read_only(folder: Path) -> Seen:
    """Read-only for whatever is opened from now on; what is open already may go on writing."""
    with small_disk(folder / "disk", 32) as disk:
        stage = Stage(disk, two_points(prompts=240))
        stage.reach("point c8")
        pids = [stage.pid(name) for name in ("prefill0", "decode0", "router")]
        log = (disk / "run" / "driver.log").open()
        _mount("--bind", str(disk), str(disk))
        _mount("-o", "remount,bind,ro", str(disk))
        try:
            code = stage.driver.wait(timeout=120)
            log.seek(0)
            said = [line for line in log if "outcome.json cannot be written" in line]
            kept = len(list(stage.run_dir.points.glob("*.json")))
        finally:
            log.close()
            subprocess.run(["umount", str(disk)], check=False)
    return Seen(
        said=said[0] if said else "",
        status="failed" if code == 1 else "?",
        notice_s=None,
        clean_s=None,
        survivors=[str(pid) for pid in pids if Path(f"/proc/{pid}/exe").exists()],
        points_kept=kept,
        points_before=1,
    )


ROWS = (
    Row(
        name="disk-full",
        fault="the results' disk fills up",
        moment="second point",
        strike=disk_full,
        says=("likely cause: the file system of", "is full"),
    ),
    Row(
        name="results-read-only",
        fault="the results' file system turns read-only",
        moment="second point",
        strike=read_only,
        says=("Read-only file system",),
    ),
)
