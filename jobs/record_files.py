"""Our own files read with suspicion: what comes back is a whole, plausible record or an error.

The analysis reads with it as well, a thousand runs in one go. Whole records are the rule, so they
are decoded in one step (msgspec checks names and types while it parses); whatever that step does
not take is read again field by field, and only there is worded what is wrong.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import stat
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jobs import records
from jobs.plain_files import open_plain
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


def read_object(path: Path, only: Any = dict[str, Any]) -> dict[str, Any]:
    """The JSON object in `path`; RecordError for anything else.

    Links are refused (a record is a file that the run wrote), and so is what is no file, too
    large, not JSON, or of another schema; pipes are never opened. `only` is a TypedDict: members
    that it does not name are passed over, unless the object is not as it says.
    """
    content = _content(path)
    data: dict[str, Any] | None = _decoded(only, content)
    if data is None:
        data = _object(content, path)
    check_schema(data, path)
    return data


def read_typed(kind: type[R], path: Path) -> R | None:
    """A whole `kind` from `path`, whose other members are passed over, or None: then what is
    wrong with it is to be looked at by read_object and typed."""
    whole: R | None = _decoded(kind, _content(path))
    return whole if whole is not None and _known(whole) else None


def read_record(kind: type[R], path: Path | str) -> R:
    """A `kind` from `path` whose numbers are finite and, but for seeds, not negative."""
    content = _content(path)
    whole: R | None = _decoded(kind, content)
    if whole is not None and _known(whole) and _plausible(whole):
        return whole
    data = _object(content, path)
    check_schema(data, path)
    record = records.from_json(kind, data, str(path))
    check_numbers(record, str(path))
    return record


def typed(kind: type[R], data: dict[str, Any], where: str) -> R:
    """A `kind` from an object that was read already; RecordError names the field that is wrong."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return records.from_json(kind, data, where)


def check_schema(data: dict[str, Any], path: Path | str) -> None:
    """RecordError unless the record is of the schema this program knows."""
    version = data.get("schema", records.SCHEMA_VERSION)
    if version != records.SCHEMA_VERSION or isinstance(version, bool):
        known = records.SCHEMA_VERSION
        raise RecordError(f"{path}: schema {version!r}, this program reads {known}")


def check_numbers(record: Any, where: str) -> None:
    """RecordError for a number that no measurement can have given."""
    names, parts = _numeric(typing.cast(Any, type(record)))
    for name in names:
        low, value = -LARGEST_NUMBER if name in MAY_BE_NEGATIVE else 0, getattr(record, name)
        if value is not None and not low <= value <= LARGEST_NUMBER:
            raise RecordError(f"{where}: {name}: impossible value {value!r}")
    for name in parts:
        if getattr(record, name) is not None:
            check_numbers(getattr(record, name), f"{where}: {name}")


def _content(path: Path | str) -> bytes:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            what = "a symbolic link, " if stat.S_ISLNK(status.st_mode) else ""
            raise RecordError(f"{path}: {what}not a regular file")
        if status.st_size > MAX_BYTES:
            raise RecordError(f"{path}: {status.st_size} bytes, records are under {MAX_BYTES}")
        with open_plain(path) as stream:
            return stream.read()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error


def _object(content: bytes, path: Path | str) -> dict[str, Any]:
    """The object, read by the parser that says best what is wrong with it."""
    try:
        data = DECODER.decode(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not a JSON record: {error}") from error
    if not isinstance(data, dict):
        raise RecordError(f"{path}: expected a JSON object, found {type(data).__name__}")
    return data


def _decoded(kind: Any, content: bytes) -> Any:
    """The value where it is whole; None where it has to be looked at closely.

    Text comes first: the decoder does not look at the bytes of members that it passes over.
    """
    try:
        return _decoder(kind).decode(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _known(record: Any) -> bool:
    return bool(vars(record).get("schema", records.SCHEMA_VERSION) == records.SCHEMA_VERSION)


def _plausible(record: Any) -> bool:
    """Whether no number is negative or too large: looked at all at once, as most records are."""
    numbers_of, apart = _numbers(typing.cast(Any, type(record)))
    numbers = [value for value in numbers_of(record) if value is not None]
    if numbers and not (min(numbers) >= 0 and sum(numbers) <= LARGEST_NUMBER):
        return False
    for name in apart:
        part = getattr(record, name)
        if part is not None and not _plausible(part):
            return False
    return True


@functools.cache
def _numbers(kind: Any) -> tuple[Callable[[Any], Sequence[Any]], tuple[str, ...]]:
    """What takes all numbers out of a record and its parts, and the parts to look at apart: those
    that may be missing, or have parts of their own."""
    hints, (names, parts) = typing.get_type_hints(kind), _numeric(kind)
    unions = {name for name in parts if typing.get_origin(hints[name]) is types.UnionType}
    apart = tuple(name for name in parts if name in unions or _numeric(hints[name])[1])
    inner = [f"{n}.{each}" for n in parts if n not in apart for each in _numeric(hints[n])[0]]
    paths = [*names, *inner]
    if len(paths) < 2:  # attrgetter gives a tuple for several names only
        return lambda record: [getattr(record, path) for path in paths], apart
    return operator.attrgetter(*paths), apart


@functools.cache
def _numeric(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a record's fields that hold numbers, and of those that hold records of numbers."""
    hints = typing.get_type_hints(kind)
    unions = {name: typing.get_origin(hint) is types.UnionType for name, hint in hints.items()}
    kinds = {n: set(typing.get_args(h)) if unions[n] else {h} for n, h in hints.items()}
    numbers = tuple(name for name, found in kinds.items() if found <= NUMBERS and found != {NONE})
    return numbers, tuple(name for name, found in kinds.items() if found <= PARTS)
