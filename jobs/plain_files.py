"""Files that others may have put in a run directory, opened without trusting what they are."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path


def open_plain(path: Path | str) -> FileIO:
    """A regular file for reading, unbuffered; OSError for a link, a pipe, a device, a folder.

    Never waits: a pipe nobody writes to would be waited at for ever, a device never ends.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return FileIO(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def is_forbidden(path: Path) -> bool:
    """Whether there may be a file that this user may not read."""
    try:
        open_plain(path).close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
