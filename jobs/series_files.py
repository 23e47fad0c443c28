"""series/<process>.jsonl: what was sampled, written by a thread of its own and kept small.

The first line of an attempt says what the numbers are:
{"process": "decode0", "role": "decode", "columns": ["t", "rank", "answer_s", ...], "schema": 1};
every further line is one look at one rank, an array in that order. `t` is seconds since 1970,
`rank` the global data parallel rank, null for numbers of the whole process; null = not told, as
is what a shorter array lacks at its end.

A slow or full file system must not hold up the run: nothing waits for this thread, and rows that
it cannot take are dropped and counted.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from jobs.records import SCHEMA_VERSION

LIMIT_BYTES = 16 * 1024 * 1024
"""Of a file that grew beyond it every second look is thrown away: the older, the sparser."""

PAUSE_S = 1.0
WAITING_ROWS = 20_000
CLOSE_S = 3.0


class SeriesFiles:
    """Takes rows at once, writes them later."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._rows: queue.Queue[tuple[str, str]] = queue.Queue(WAITING_ROWS)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True, name="series")
        self.dropped = 0
        self.trouble: str | None = None

    def begin(self) -> None:
        """The thread starts."""
        self._thread.start()

    def head(self, process: str, role: str, columns: Sequence[str]) -> None:
        """Says what the rows of a process are from now on."""
        told = {"process": process, "role": role, "columns": list(columns)}
        self._put(process, json.dumps({**told, "schema": SCHEMA_VERSION}))

    def row(self, process: str, values: Sequence[float | None]) -> None:
        """One look at one rank."""
        shown = [_short(value) for value in values]
        while shown and shown[-1] is None:
            shown.pop()
        self._put(process, json.dumps(shown, separators=(",", ":")))

    def close(self) -> None:
        """The rest is written; a file system that hangs is given 3 s."""
        self._over.set()
        self._thread.join(CLOSE_S)

    def _put(self, process: str, line: str) -> None:
        try:
            self._rows.put_nowait((process, line))
        except queue.Full:
            self.dropped += 1

    def _write(self) -> None:
        over = False
        while not over:
            over = self._over.wait(PAUSE_S)
            lines: dict[str, list[str]] = defaultdict(list)
            while not self._rows.empty():
                process, line = self._rows.get_nowait()
                lines[process].append(line)
            try:
                for process, new in lines.items():
                    _append(self._folder / f"{process}.jsonl", new, self._limit)
            except OSError as error:
                self.trouble = f"{error.strerror or error} ({error.filename})"
                self.dropped += sum(map(len, lines.values()))


def _short(value: float | None) -> float | int | None:
    """Whole numbers without their .0; what is no number at all is not told."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else round(value, 6)


def _append(path: Path, lines: list[str], limit_bytes: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as stream:
        stream.write(data)
        size = stream.tell()
    if size > limit_bytes:
        thin_out(path)


def thin_out(path: Path) -> None:
    """Every second look of every rank stays, and what the heads say."""
    seen: dict[str, int] = defaultdict(int)
    aside = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with path.open(encoding="utf-8") as before, os.fdopen(descriptor, "w") as after:
        for line in before:
            if line.startswith("["):
                rank = line.split(",", 2)[1]
                seen[rank] += 1
                if seen[rank] % 2 == 0:
                    continue
            after.write(line)
    aside.replace(path)
