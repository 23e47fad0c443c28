"""Which request comes next, across processes: each number is drawn once, in order, by whoever asks.

The numbers lie in an anonymous file whose descriptor the processes inherit: they share its
position, and the kernel moves it whole with every read (read(2), "f_pos"), so there is neither a
lock that a dying process could keep nor a server to ask.
"""

from __future__ import annotations

import os
import struct
from array import array

WIDTH = 4


def make_tickets(count: int) -> int:
    """A descriptor that gives 0, 1, ... count - 1."""
    descriptor = os.memfd_create("tickets")
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(array("I", range(count)).tobytes())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def draw(descriptor: int) -> int | None:
    """The next number; None when there is none left."""
    data = os.read(descriptor, WIDTH)
    return struct.unpack("I", data)[0] if data else None
