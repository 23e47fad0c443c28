"""Reading the steps' logs: what is new, and the last lines worth showing."""

from __future__ import annotations

import os
import re
import shutil
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
                if stream.seek(0, 2) < self.offset:
                    self.offset, self._rest = 0, ""  # it was cut (LogLimit)
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
            stream.seek(max(offset if offset <= size else 0, size - TAIL_BYTES))
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


class LogLimit:
    """Keeps one process's logs below a limit: of a longer one the beginning and the end stay.

    The process appends to a file it keeps open, so the file is copied away and cut to nothing.
    A third of the limit stays as `<name>.first.log`, the last as `<name>.log`, and what came
    just before that as `<name>.before.log`; what lies between them is gone, and the log says so.
    """

    def __init__(self, path: Path, limit_bytes: float) -> None:
        self._path = path
        self._part = max(4096, int(limit_bytes / 3))
        self.first = path.with_name(f"{path.stem}.first.log")
        self.before = path.with_name(f"{path.stem}.before.log")
        self.cuts = 0

    def look(self) -> bool:
        """Whether the log had to be cut now."""
        try:
            if self._path.stat().st_size <= self._part:
                return False
        except OSError:
            return False
        aside = self.before if self.cuts else self.first
        shutil.copyfile(self._path, aside)
        aside.chmod(0o600)
        os.truncate(self._path, 0)
        self.cuts += 1
        said = f"--- log cut here ({self.cuts}): cluster.log_limit_mb; its beginning: {self.first}"
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(said + " ---\n")
        return True
