"""Named numpy arrays in one file that is memory-mapped, in the layout of safetensors.

Eight bytes of header length, a JSON header {name: {dtype, shape, data_offsets}, "__metadata__":
{text: text}}, then the arrays, all little-endian: any safetensors reader opens it. Written aside
and renamed, with a SHA-256 of the data in the header, so that a torn file is told from a whole one.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.targets import check_target

Array = npt.NDArray[Any]
DTYPES = {"U8": "<u1", "U16": "<u2", "U32": "<u4", "I32": "<i4", "I64": "<i8", "F64": "<f8"}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
MAX_HEADER_BYTES = 1 << 24
ALIGNMENT = 8
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading a header of wrong types, sizes or depth raises."""


class ArraysFileError(ValueError):
    """A file that is torn, foreign or damaged; the text is the whole message."""


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """`arrays` and `metadata` at `path`, whole or not at all; OSError when it cannot be written."""
    little: dict[str, Any] = {
        name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for name, a in arrays.items()
    }
    # Widest first: every array then starts where its type may start.
    order = sorted(little, key=lambda name: -little[name].dtype.itemsize)
    digest = hashlib.sha256()
    header: dict[str, Any] = {}
    begin = 0
    for name in order:
        array = little[name]
        digest.update(array.data.cast("B") if array.size else b"")
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    header["__metadata__"] = {**metadata, "sha256": digest.hexdigest()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    parts: list[Any] = [
        len(text).to_bytes(8, "little"),
        text,
        *(memoryview(little[n]) for n in order),
    ]
    _write_whole(path, parts)


def _write_whole(path: Path, parts: Iterable[Any]) -> None:
    check_target(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with aside.open("wb") as stream:
            for part in parts:
                stream.write(part)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except OSError as error:
        # A full disk does not say which file it has no room for.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        aside.unlink(missing_ok=True)


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays, mapped and not writable, and the metadata; ArraysFileError, OSError."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise ArraysFileError(f"{path}: no header of a prompt file in its {size} bytes")
        try:
            header = json.loads(stream.read(length))
            metadata = dict(header.pop("__metadata__"))
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            arrays = {n: _array(mapped, 8 + length, entry) for n, entry in header.items()}
        except DAMAGED as error:
            raise ArraysFileError(f"{path}: torn or damaged ({error!r}); delete it") from error
    data = hashlib.sha256(memoryview(mapped)[8 + length :]).hexdigest()
    if data != metadata.get("sha256"):
        raise ArraysFileError(f"{path}: its content does not have its checksum; delete it")
    return arrays, metadata


def _array(mapped: mmap.mmap, base: int, entry: Mapping[str, Any]) -> Array:
    begin, end = entry["data_offsets"]
    dtype = np.dtype(DTYPES[entry["dtype"]])
    count = (end - begin) // dtype.itemsize
    return np.frombuffer(mapped, dtype, count, base + begin).reshape(entry["shape"])
