"""Files copied several at a time, each verified; the whole gets its name only when all are."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from jobs.stage.headers import safetensors_size
from jobs.stage.shelf import SourceFile, StageError

BLOCK = 16 * 1024 * 1024
SMALL = 64 * 1024 * 1024
"""Files up to this many bytes are always compared by content."""
GB = 1e9


class Copied:
    """Bytes copied so far, counted by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bytes = 0
        self.files = 0
        self.stop = threading.Event()
        """Set when one file failed: the others end early."""

    def add(self, size: int) -> None:
        """Some more bytes."""
        with self._lock:
            self.bytes += size

    def one_more(self) -> None:
        """A file is there and verified."""
        with self._lock:
            self.files += 1


def copy_all(
    source: Path, target: Path, files: Sequence[SourceFile], at_once: int, content: bool, so: Copied
) -> dict[str, dict[str, Any]]:
    """Every file copied into `target`, verified and on the disk; the manifest's entries.

    StageError for the first that failed: a full disk, a short read, a copy that differs.
    """
    for folder in {(target / file.name).parent for file in files}:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ThreadPoolExecutor(at_once) as pool:
        made = {
            pool.submit(_copy, source, target, file, content or file.size <= SMALL, so): file
            for file in sorted(files, key=lambda file: -file.size)
        }
        done, rest = wait(made, return_when=FIRST_EXCEPTION)
        failed = [future.exception() for future in done if future.exception()]
        if failed:
            so.stop.set()
            for future in rest:
                future.cancel()
    for error in failed:
        raise _told(error, target) from error
    return {file.name: future.result() for future, file in made.items()}


def _told(error: BaseException | None, target: Path) -> BaseException:
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        disk = os.statvfs(target.parent)
        what = f"{error.filename or target}: {error.strerror}"
        if full:
            free = disk.f_bavail * disk.f_frsize / GB
            what += f" ({free:.1f} GB free); free some, or set cluster.stage.dir elsewhere"
        return StageError(what)
    return error or StageError("a copy failed without a word")


def _copy(
    source: Path, target: Path, file: SourceFile, content: bool, so: Copied
) -> dict[str, Any]:
    hashed = hashlib.sha256() if content else None
    copy, size = target / file.name, 0
    try:
        with (source / file.name).open("rb") as reads, copy.open("wb") as writes:
            while block := reads.read(BLOCK):
                if so.stop.is_set():
                    raise StageError("stopped, since another file failed")
                writes.write(block)
                size += len(block)
                so.add(len(block))
                if hashed:
                    hashed.update(block)
            writes.flush()
            os.fsync(writes.fileno())
            os.posix_fadvise(writes.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        error.filename = error.filename or str(copy)
        raise
    if size != file.size:
        raise StageError(
            f"{source / file.name} gave {size:,} of its {file.size:,} bytes: it changed while it "
            "was read, or its file system is failing"
        )
    digest = hashed.hexdigest() if hashed else None
    _verify(copy, file, digest)
    so.one_more()
    return {"size": file.size, "changed_ns": file.changed_ns, "sha256": digest}


def _verify(copy: Path, file: SourceFile, digest: str | None) -> None:
    """By size; by the weights' own header; by content, read back from the disk, where hashed."""
    size = copy.stat().st_size
    if size != file.size:
        raise StageError(f"{copy} has {size:,} of {file.size:,} bytes after the copy")
    if copy.suffix == ".safetensors" and safetensors_size(copy) != file.size:
        raise StageError(
            f"{copy}: {size:,} bytes, its header says {safetensors_size(copy)}: the original is "
            "damaged; download it again"
        )
    if digest is not None and sha256_of(copy) != digest:
        raise StageError(f"{copy} reads back with another content than was written: a failing disk")


def sha256_of(path: Path) -> str:
    """The content's hash, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_room(shelf: Path, files: Sequence[SourceFile], spare_gb: float) -> str | None:
    """Why the files do not fit on this disk, None where they do. Bytes of the files + spare_gb."""
    place = shelf
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GB
    wanted = sum(file.size for file in files) / GB
    if free >= wanted + spare_gb:
        return None
    return (
        f"{shelf}: {free:.3f} GB free, {wanted:.3f} GB to be copied and {spare_gb:g} GB to be left "
        "(cluster.min_free_disk_gb); free some, or set cluster.stage.dir elsewhere"
    )
