"""Prompt files and probed pieces kept by content hash, for the next point and the next run.

Safe against several processes: an entry appears by rename, making it holds a lock where the file
system has locks (without, the same bytes are made twice), and readers check checksums.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.prompts.arrays_file import ArraysFileError
from jobs.prompts.errors import PromptError
from jobs.targets import check_target

LIMIT_BYTES = 1 << 30
ENTRY = "*.prompts"


@dataclass(frozen=True, slots=True)
class PromptCache:
    """Entries in `folder`, at most `limit_bytes` of them; the least recently used go first."""

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def path(self, key: str) -> Path:
        """Where an entry is or will be."""
        return self.folder / f"{key}.prompts"

    def get(self, key: str, check: Callable[[Path], object], make: Callable[[Path], None]) -> bool:
        """Has the entry at path(key): whether it was there already. `check` raises for an entry
        that is not whole, which is then made again; `make` writes it whole or not at all."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(key):
            if _is_whole(path, check):
                os.utime(path)
                return True
            path.unlink(missing_ok=True)
            make(path)
            self._trim(path)
            return False

    def hand_out(self, key: str, out: Path) -> None:
        """The entry at `out` as well, whole or not at all: a hard link, or a copy."""
        check_target(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
        aside.unlink(missing_ok=True)
        try:
            try:
                os.link(self.path(key), aside)
            except OSError:
                shutil.copyfile(self.path(key), aside)
            aside.replace(out)
        finally:
            aside.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """One of sixteen locks; no lock at all where the file system has none."""
        with (self.folder / f".lock-{key[0]}").open("w") as stream:
            with contextlib.suppress(OSError):
                fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def _trim(self, newest: Path) -> None:
        """Deletes what was used longest ago beyond the limit, never the newest."""
        found = []
        for path in self.folder.glob(ENTRY):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit_bytes:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size


def own_folder(folder: Path) -> Path:
    """`folder`, made if need be; one beside it where that is another user's, whose entries are
    neither trusted nor replaced. OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid == os.geteuid():
        return folder
    own = folder.with_name(f"{folder.name}-{os.geteuid()}")
    own.mkdir(exist_ok=True, mode=0o700)
    return own


def _is_whole(path: Path, check: Callable[[Path], object]) -> bool:
    if not path.exists():
        return False
    try:
        check(path)
    except (PromptError, ArraysFileError, OSError):
        return False
    return True
