"""What every command does with its result: files whole or not at all, warnings to stderr."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.safetext import csv_cell, printable

SUFFIXES = (".parquet", ".csv")


def save(path: Path, content: bytes) -> None:
    """Whole or not at all, as every file of ours; AnalysisError when it cannot be written.

    A link is followed. What is no file (/dev/null, a pipe) is written to and never replaced: a
    rename would put a regular file in its place.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        _replace(target, content)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AnalysisError(f"--out {path}: cannot be written: {why}") from error


def _replace(target: Path, content: bytes) -> None:
    aside = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        aside.write_bytes(content)
        aside.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def frame_bytes(frame: pd.DataFrame, out: Path) -> bytes:
    """A tidy frame in the format of `out`'s suffix; AnalysisError for any other."""
    if out.suffix == ".csv":
        return frame.map(_csv_cell).to_csv(index=False).encode()
    if out.suffix != ".parquet":
        raise AnalysisError(f"--out {out}: the suffix is none of {', '.join(SUFFIXES)}")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _csv_cell(value: object) -> object:
    return csv_cell(printable(value)) if isinstance(value, str) else value


def warn(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"{printable(text)}\n")


def put(
    frame: pd.DataFrame, text: Callable[[pd.DataFrame], str], out: Path | None, warned: list[str]
) -> int:
    """A command's frame into `out`, or as `text` on stdout; its warnings; 1 for an empty one."""
    if out is not None:
        save(out, frame_bytes(frame, out))
    else:
        sys.stdout.write(text(frame))
    for warning in warned:
        warn(f"warning: {warning}")
    return int(frame.empty)
