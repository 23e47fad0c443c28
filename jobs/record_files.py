"""Our own files read with suspicion: what comes back is a whole, plausible record or an error.

The analysis reads with it as well.
"""

from __future__ import annotations

import functools
import json
import stat
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import orjson

from jobs import records
from jobs.records import RecordError

R = TypeVar("R")

MAX_BYTES = 8 * 2**20
LARGEST_NUMBER = 1e18
MAY_BE_NEGATIVE = frozenset({"seed"})
NONE = type(None)
NUMBERS = frozenset({int, float, NONE})
PARTS = frozenset({
    records.Latency, records.ServerCounters, records.Window, records.ClientLoad,
    records.Station, records.Stations, NONE,
})  # fmt: skip


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse(content: bytes) -> Any:
    """The value; a thousand runs are read in one go, so orjson reads it.

    What it refuses (json is laxer with lone surrogates, and words errors better) json decides.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return DECODER.decode(content.decode("utf-8"))


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
        data = _parse(path.read_bytes())
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
    values = vars(record)
    names, parts = _numeric(typing.cast(Any, type(record)))
    numbers = [value for name in names if (value := values.get(name)) is not None]
    # None is negative and their sum is no NaN and in range: then each of them is.
    if numbers and not (min(numbers) >= 0 and sum(numbers) <= LARGEST_NUMBER):
        for name in names:
            low = -LARGEST_NUMBER if name in MAY_BE_NEGATIVE else 0
            value = values.get(name)
            if value is not None and not low <= value <= LARGEST_NUMBER:
                raise RecordError(f"{where}: {name}: impossible value {value!r}")
    for name in parts:
        if values[name] is not None:
            check_numbers(values[name], f"{where}: {name}")


@functools.cache
def _numeric(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a record's fields that hold numbers, and of those that hold records of numbers."""
    hints = typing.get_type_hints(kind)
    unions = {name: typing.get_origin(hint) is types.UnionType for name, hint in hints.items()}
    kinds = {n: set(typing.get_args(h)) if unions[n] else {h} for n, h in hints.items()}
    numbers = tuple(name for name, found in kinds.items() if found <= NUMBERS and found != {NONE})
    return numbers, tuple(name for name, found in kinds.items() if found <= PARTS)
