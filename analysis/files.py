"""One JSON file read with suspicion: what comes back is a whole, plausible record or an error."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any, TypeVar

from analysis.errors import BrokenFileError
from jobs import records

R = TypeVar("R")

MAX_BYTES = 8 * 2**20
LARGEST_NUMBER = 1e18
MAY_BE_NEGATIVE = frozenset({"seed"})


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; BrokenFileError for anything else (pipes are never opened)."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BrokenFileError(f"{path}: not a regular file")
        if status.st_size > MAX_BYTES:
            raise BrokenFileError(f"{path}: {status.st_size} bytes, records are under {MAX_BYTES}")
        data = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise BrokenFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, BrokenFileError):
            raise
        raise BrokenFileError(f"{path}: not a JSON record: {error}") from error
    if not isinstance(data, dict):
        raise BrokenFileError(f"{path}: expected a JSON object, found {type(data).__name__}")
    check_schema(data, path)
    return data


def read_record(kind: type[R], path: Path) -> R:
    """A `kind` from `path` whose numbers are finite and, but for seeds, not negative."""
    try:
        record = records.from_json(kind, read_object(path), str(path))
    except records.RecordError as error:
        raise BrokenFileError(str(error)) from error
    _check_numbers(record, str(path))
    return record


def check_schema(data: dict[str, Any], path: Path) -> None:
    """BrokenFileError unless the record is of the schema this program knows."""
    version = data.get("schema", records.SCHEMA_VERSION)
    if version != records.SCHEMA_VERSION or isinstance(version, bool):
        raise BrokenFileError(
            f"{path}: schema {version!r}, this program reads {records.SCHEMA_VERSION}"
        )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _check_numbers(record: Any, where: str) -> None:
    for name, value in vars(record).items():
        if isinstance(value, int | float):
            low = -LARGEST_NUMBER if name in MAY_BE_NEGATIVE else 0
            if not low <= value <= LARGEST_NUMBER or not math.isfinite(value):
                raise BrokenFileError(f"{where}: {name}: impossible value {value!r}")
        elif isinstance(value, records.Latency | records.ServerCounters):
            _check_numbers(value, f"{where}: {name}")
