"""How far a measurement is: one small file, written over and over while it lasts.

The client of a point writes gates/<name>.progress, the driver gates/accuracy.progress; whoever
watches the run reads them. They are no records: nothing is computed from them afterwards.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.records import RecordError, from_json

EVERY_S = 2.0
LARGEST_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`done` of `total` requests have ended, `failed` of them badly.

    `stage` is warm-up, measured or questions. `tokens` is input and output of the good requests,
    None where it is not known; `exact` is False when it is their share of the planned tokens.
    `t` is seconds since 1970.
    """

    stage: str
    done: int
    failed: int
    total: int
    elapsed_s: float
    t: float
    tokens: float | None = None
    exact: bool = True


def read_progress(path: Path) -> Progress | None:
    """What the file says; None when it is not there or not to be believed."""
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST_BYTES:
            return None
        told = from_json(Progress, json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, RecursionError, RecordError):
        return None
    sound = 0 <= told.failed <= told.done <= told.total and 0 <= told.elapsed_s < 1e9
    return told if sound and 0 < told.total < 10**9 and 0 <= (told.tokens or 0.0) < 1e18 else None


Look = Callable[[], tuple[int, int, float | None]]
"""Requests that have ended, failed ones among them, and tokens of the good ones."""


@contextmanager
def progress_told(path: Path | None, stage: str, total: int, look: Look) -> Iterator[None]:
    """While inside, `path` says every 2 s how far it is; nothing when `path` is None.

    A thread of its own writes it: a slow file system must not delay a measurement. A file that
    cannot be written is left as it was.
    """
    if path is None or total <= 0:
        yield
        return
    over = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        while not over.is_set():
            done, failed, tokens = look()
            now = Progress(
                stage=stage,
                done=done,
                failed=failed,
                total=total,
                elapsed_s=round(time.monotonic() - begun, 3),
                t=round(time.time(), 3),
                tokens=tokens,
            )
            if over.is_set():
                return  # a slow look of one stage is no word on the next
            with contextlib.suppress(OSError):
                _write(path, json.dumps(asdict(now)) + "\n")
            over.wait(EVERY_S)

    threading.Thread(target=tell, daemon=True, name="progress").start()
    try:
        yield
    finally:
        over.set()


def _write(path: Path, text: str) -> None:
    """Whole or not at all, without waiting for the disk; two stages' threads may be at it."""
    aside = path.with_name(f".{path.name}.{threading.get_ident()}.tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
