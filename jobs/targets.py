"""Where a file may be put by renaming: never onto a device, a pipe or a socket.

A rename takes the place of whatever has the name: as root `--out /dev/null` would leave a regular
file there, for every program of the machine.
"""

from __future__ import annotations

import errno
from pathlib import Path


def check_target(path: Path) -> None:
    """OSError where `path` is something that is no regular file (a folder included)."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file, and is not replaced by one", str(path))
