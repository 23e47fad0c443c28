"""A folder of the user's own below a shared /tmp, for compile caches: nobody else's, ever.

`<base>/launcher-<uid>/<run>`: made with 0700, and believed only when it is a real folder that
belongs to this user and that nobody else may enter. Another user may have put a link or a folder
of theirs at a name that can be guessed; then the run stops before anything is written.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterable
from pathlib import Path

STALE_S = 86400.0
KEPT_S = 30 * 86400.0
"""Kept caches that no run has used for so long are removed."""


class CacheFolderError(OSError):
    """The folder is not safe to use; the text says whose it is and what to do."""


def user_folder(base: str) -> Path:
    """Where this user's caches lie below `base`."""
    return Path(base) / f"launcher-{os.getuid()}"


def claim(base: str, run_id: str) -> Path:
    """The run's cache folder, made if need be; CacheFolderError when it is not ours alone."""
    own = user_folder(base)
    for folder in (own, own / run_id):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise CacheFolderError(
                f"{folder} cannot be made: {error.strerror}; set cluster.cache_dir to a local "
                "folder that you may write"
            ) from error
        check(folder)
    return own / run_id


def kept_folder(base: str) -> Path:
    """Where this user's compile caches lie that outlive their run."""
    return Path(base) / f"launcher-{os.getuid()}-caches"


def claim_kept(base: str, name: str) -> list[str]:
    """The folder of one (image, model, flags) made, or its use noted; names of old ones removed.

    CacheFolderError when it is not ours alone.
    """
    home, now = kept_folder(base), time.time()
    for folder in (home, home / name):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CacheFolderError(f"{folder} cannot be made: {error.strerror}") from error
        check(folder)
    os.utime(home / name)
    old = [path for path in home.iterdir() if now - path.lstat().st_mtime > KEPT_S]
    for path in old:
        if not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in old]


def check(folder: Path) -> None:
    """CacheFolderError unless it is a real folder of this user, closed to all others."""
    found = folder.lstat()
    owner = f"user {found.st_uid}"
    if not stat.S_ISDIR(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no folder"
        raise CacheFolderError(
            f"{folder} is {what} ({owner}): remove it, or set cluster.cache_dir elsewhere"
        )
    if found.st_uid != os.getuid():
        raise CacheFolderError(f"{folder} belongs to {owner}: set cluster.cache_dir elsewhere")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CacheFolderError(f"{folder} is open to other users: chmod 700 {folder}")


def remove(base: str, run_id: str) -> None:
    """The run's caches gone; links in them are removed, never followed."""
    folder = user_folder(base) / run_id
    if run_id and "/" not in run_id and run_id not in (".", "..") and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale(base: str, marks: Iterable[str]) -> list[Path]:
    """Removes caches that ended runs left here (a lost node, a killed driver); what was removed.

    Stale is what nothing was written to for a day, and no run's mark in `marks` begins with.
    """
    own, gone = user_folder(base), []
    living = tuple(marks)
    for folder in own.iterdir() if own.is_dir() else ():
        old = time.time() - folder.lstat().st_mtime > STALE_S
        if old and not any(mark.startswith(folder.name) for mark in living):
            remove(base, folder.name)
            gone.append(folder)
    return gone


if __name__ == "__main__":
    remove(sys.argv[1], sys.argv[2])
