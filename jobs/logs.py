"""Reading the steps' logs: what is new, and the last lines worth showing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

TAIL_BYTES = 64 * 1024
LINE_LIMIT = 400
ERROR = re.compile(r"\bERROR\b|\bFATAL\b|Traceback|Error:|error:")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class LogReader:
    """New lines of one log since the last look; progress bars count as lines."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self.offset = offset
        self._rest = ""

    def new_lines(self) -> list[str]:
        """Whole lines that arrived; a log that is not there yet has none."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return []
        self.offset += len(data)
        pieces = re.split(r"[\r\n]+", self._rest + data.decode("utf-8", "replace"))
        self._rest = pieces.pop()
        return [piece for piece in pieces if piece]


def last_lines(
    path: Path, offset: int, is_noise: Callable[[str], bool], count: int = 20
) -> list[str]:
    """The last `count` lines that may explain a failure, cut to a readable width.

    When the first error stands before them, it leads (a cascade's origin scrolls away first).
    """
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(offset, size - TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError as error:
        return [f"(no log: {error})"]
    lines = [ANSI.sub("", line).rstrip() for line in re.split(r"[\r\n]+", text)]
    lines = [line[:LINE_LIMIT] for line in lines if not is_noise(line)]
    tail = lines[-count:]
    first = next((line for line in lines if ERROR.search(line)), None)
    if first is not None and first not in tail:
        tail = [first, "...", *tail[2:]]
    return tail
