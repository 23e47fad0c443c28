"""Lines of a log of any size, in bounded memory: from a place on, from the end, as they come."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from jobs.plain_files import open_plain
from jobs.plain_text import printable
from jobs.runs.stamps import Stamps

BLOCK = 64 * 1024
LINE_BYTES = 16 * 1024
"""Of a longer line, the beginning is shown; the rest is left out, and that is said."""

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"  # DCS, SOS, PM, APC
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it may be shown; `at` is when it was written (s since 1970)."""

    source: str
    text: str
    at: float


def clean(data: bytes) -> str:
    """A line's bytes as text that cannot move a cursor: of a progress bar, its last state.

    A line cannot hide itself: where nothing is left after the last return, what stood before it is
    shown.
    """
    cut = len(data) > LINE_BYTES
    text = ESCAPES.sub("", data[:LINE_BYTES].decode("utf-8", "replace")).rstrip("\n")
    states = [state for state in text.split("\r") if state.strip()]
    text = states[-1] if states else ""
    return printable(text, keep="\t") + (" [... cut]" if cut else "")


def raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines from where `stream` stands to its end; of overlong ones the beginning."""
    while head := stream.readline(LINE_BYTES + 1):
        piece = head
        while not piece.endswith(b"\n") and (piece := stream.readline(BLOCK)):
            pass
        yield head


def start_of_tail(stream: BinaryIO, count: int, wanted: Callable[[str], bool] | None) -> int:
    """Where the last `count` (wanted) lines begin: read backwards, block by block."""
    place = stream.seek(0, os.SEEK_END)
    found, rest = 0, b""
    while place > 0 and found < count:
        size = min(BLOCK, place)
        place -= size
        stream.seek(place)
        # `rest` is the beginning of a line whose own beginning lies further up.
        first, *others = (stream.read(size) + rest).split(b"\n")
        end = place + len(first) + 1
        offsets = []
        for other in others:
            offsets.append((end, other))
            end += len(other) + 1
        for offset, other in reversed(offsets):
            if other and (wanted is None or wanted(clean(other))):
                found += 1
                if found == count:
                    return offset
        rest = first if len(first) <= LINE_BYTES else first[:LINE_BYTES]
    return 0


def start_since(stream: BinaryIO, since: float, stamps: Stamps) -> int:
    """A place at or before the first line stamped `since` or later, by bisection.

    Stamps in one log only grow, but for lines of several ranks that pass each other by moments:
    hence the margin.
    """
    low, high = 0, stream.seek(0, os.SEEK_END)
    while high - low > BLOCK:
        middle = (low + high) // 2
        stream.seek(middle)
        stream.readline(LINE_BYTES)
        at = None
        while at is None and stream.tell() < high:
            line = stream.readline(LINE_BYTES)
            if not line:
                break
            at = stamps.read(clean(line))
        if at is None or at >= since - 1.0:
            high = middle
        else:
            low = middle
    stream.seek(low)
    if low:
        stream.readline()
    return stream.tell()


@dataclass(slots=True)
class LogFile:
    """One step's log: its lines in the order of the file, each with a time.

    A line without a stamp belongs to the line before it; before the first stamp stands `begun`.
    """

    source: str
    path: Path
    begun: float
    _stream: BinaryIO | None = None
    _rest: bytes = b""
    _at: float = 0.0
    _stamps: Stamps = field(default_factory=lambda: Stamps(time.time()))

    def open(self) -> bool:
        """Whether there is a regular file to read; links and pipes are not followed."""
        if self._stream is not None:
            return True
        try:
            self._stream = io.BufferedReader(open_plain(self.path))
        except OSError:
            return False
        changed = os.fstat(self._stream.fileno()).st_mtime
        self._stamps, self._at = Stamps(changed), max(self._at, min(self.begun, changed))
        return True

    def skip_to_tail(self, count: int, wanted: Callable[[str], bool] | None) -> None:
        """Reading begins with the last `count` (wanted) lines."""
        if self.open() and self._stream is not None:
            self._begin_at(start_of_tail(self._stream, count, wanted))

    def skip_to(self, since: float) -> None:
        """Reading begins at, or a little before, the first line of `since`."""
        if self.open() and self._stream is not None:
            self._begin_at(start_since(self._stream, since, self._stamps))

    def _begin_at(self, place: int) -> None:
        """Reading goes on at `place`; the time of a line before it, where one is near, holds."""
        assert self._stream is not None
        self._stream.seek(max(0, place - BLOCK))
        while self._stream.tell() < place and (line := self._stream.readline(LINE_BYTES)):
            self._at = self._stamps.read(clean(line)) or self._at
        self._stream.seek(place)

    def lines(self) -> Iterator[Line]:
        """All lines from here to the end that the file has now, an unfinished last one too."""
        if not self.open() or self._stream is None:
            return
        for data in raw_lines(self._stream):
            yield self._line(data)

    def new_lines(self) -> Iterator[Line]:
        """Whole lines that came since the last look; a file that was replaced or emptied is read
        from its beginning, after what was left of the old one."""
        for _ in range(2):
            if not self.open() or self._stream is None:
                return
            yield from self._whole_lines()
            if not self._replaced():
                return
            if self._rest:
                yield self._line(self._rest)
            self._stream.close()
            self._stream, self._rest = None, b""

    def _whole_lines(self) -> Iterator[Line]:
        assert self._stream is not None
        while data := self._stream.read(BLOCK):
            *whole, rest = (self._rest + data).split(b"\n")
            self._rest = rest[: LINE_BYTES + 1]
            for piece in whole:
                yield self._line(piece)

    def _line(self, data: bytes) -> Line:
        text = clean(data)
        self._at = self._stamps.read(text) or self._at
        return Line(self.source, text, self._at)

    def _replaced(self) -> bool:
        """Whether the name stands for another file now, or the file became shorter."""
        assert self._stream is not None
        try:
            there, ours = self.path.stat(), os.fstat(self._stream.fileno())
        except OSError:
            return False
        return there.st_ino != ours.st_ino or there.st_size < self._stream.tell()

    def close(self) -> None:
        """Nothing more is read."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
