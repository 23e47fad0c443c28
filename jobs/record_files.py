"""Our own files read with suspicion: what comes back is a whole, plausible record or an error.

Standard library only: the analysis reads with it as well.
"""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any, TypeVar

from jobs import records
from jobs.records import RecordError

R = TypeVar("R")

MAX_BYTES = 8 * 2**20
LARGEST_NUMBER = 1e18
MAY_BE_NEGATIVE = frozenset({"seed"})
PARTS = (records.Latency, records.ServerCounters, records.Window, records.ClientLoad)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; RecordError for anything else.

    Links are refused (a record is a file that the run wrote), and so is what is no file, too
    large, not JSON, or of another schema; pipes are never opened.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            what = "a symbolic link, " if stat.S_ISLNK(status.st_mode) else ""
            raise RecordError(f"{path}: {what}not a regular file")
        if status.st_size > MAX_BYTES:
            raise RecordError(f"{path}: {status.st_size} bytes, records are under {MAX_BYTES}")
        data = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"{path}: not a JSON record: {error}") from error
    if not isinstance(data, dict):
        raise RecordError(f"{path}: expected a JSON object, found {type(data).__name__}")
    check_schema(data, path)
    return data


def read_record(kind: type[R], path: Path) -> R:
    """A `kind` from `path` whose numbers are finite and, but for seeds, not negative."""
    record = records.from_json(kind, read_object(path), str(path))
    check_numbers(record, str(path))
    return record


def check_schema(data: dict[str, Any], path: Path) -> None:
    """RecordError unless the record is of the schema this program knows."""
    version = data.get("schema", records.SCHEMA_VERSION)
    if version != records.SCHEMA_VERSION or isinstance(version, bool):
        known = records.SCHEMA_VERSION
        raise RecordError(f"{path}: schema {version!r}, this program reads {known}")


def check_numbers(record: Any, where: str) -> None:
    """RecordError for a number that no measurement can have given."""
    for name, value in vars(record).items():
        if isinstance(value, int | float):
            low = -LARGEST_NUMBER if name in MAY_BE_NEGATIVE else 0
            if not low <= value <= LARGEST_NUMBER or not math.isfinite(value):
                raise RecordError(f"{where}: {name}: impossible value {value!r}")
        elif isinstance(value, PARTS):
            check_numbers(value, f"{where}: {name}")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
