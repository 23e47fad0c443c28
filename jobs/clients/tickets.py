"""Which request comes next, across processes: each number is drawn once, in order, by whoever asks.

The numbers lie in a file without a name whose descriptor the processes inherit: they share its
position, which the kernel moves whole with every read (Linux since 3.14: FMODE_ATOMIC_POS), so
there is neither a lock that a dying process could keep nor a server to ask. It has to be a file
that was opened: for one of memfd_create the kernel does not do so, and numbers are drawn twice.
"""

from __future__ import annotations

import os
import struct
import tempfile
from array import array

WIDTH = 4


def make_tickets(count: int) -> int:
    """A descriptor that gives 0, 1, ... count - 1."""
    with tempfile.TemporaryFile() as stream:
        stream.write(array("I", range(count)).tobytes())
        stream.seek(0)
        return os.dup(stream.fileno())


def draw(descriptor: int) -> int | None:
    """The next number; None when there is none left."""
    data = os.read(descriptor, WIDTH)
    return int(struct.unpack("I", data)[0]) if data else None
