"""What must hold of a prompt file's content before any request of it is read.

The checksum tells a damaged file; this tells one that some other program wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jobs.prompts.arrays_file import Array

FORMS = ("text", "ids", "messages")
KINDS = {"text": "u1", "pieces": "u2 u4", "arrival_s": "f8", "wait_s": "f8"}
INTEGERS = "i4 i8"
REQUIRED = ("text", "text_starts", "pieces", "piece_starts", "prompt_tokens", "output_tokens")
PER_REQUEST = ("output_tokens", "arrival_s", "session", "turn", "wait_s")
ID_LETTERS = np.frombuffer(b"0123456789,", dtype=np.uint8)


def faults(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a file's arrays and what it says of itself; nothing: it can be read."""
    missing = [name for name in REQUIRED if name not in arrays]
    if missing:
        yield f"has no {', '.join(missing)}"
        return
    wrong = [name for name, array in arrays.items() if not _is_row(name, array)]
    if wrong:
        yield f"{', '.join(sorted(wrong))}: not one row of numbers of their kind"
        return
    total = len(arrays["prompt_tokens"])
    yield from _size_faults(arrays, total)
    yield from _value_faults(arrays)
    yield from _meta_faults(meta, total)
    if meta.get("form") == "ids" and not np.isin(arrays["text"], ID_LETTERS).all():
        yield "form ids, and its text is not of digits"


def _size_faults(arrays: Mapping[str, Array], total: int) -> Iterator[str]:
    for name in PER_REQUEST:
        if name in arrays and len(arrays[name]) != total:
            yield f"{name} has {len(arrays[name])} entries for {total} requests"
    yield from _borders("text", arrays["text_starts"], len(arrays["text"]))
    yield from _borders("piece", arrays["piece_starts"], len(arrays["pieces"]))
    if len(arrays["piece_starts"]) != total + 1:
        yield f"piece_starts has {len(arrays['piece_starts'])} entries, not {total + 1}"


def _value_faults(arrays: Mapping[str, Array]) -> Iterator[str]:
    known = len(arrays["text_starts"]) - 1
    if arrays["pieces"].size and int(arrays["pieces"].max()) >= known:
        yield f"piece {int(arrays['pieces'].max())} is named, and there are {known}"
    if any(arrays[name].min(initial=1) < 1 for name in ("prompt_tokens", "output_tokens")):
        yield "a request of no tokens"
    for name in ("arrival_s", "wait_s"):
        if name in arrays and not (np.isfinite(arrays[name]) & (arrays[name] >= 0)).all():
            yield f"{name} has an entry that is no time"


def _meta_faults(meta: Mapping[str, Any], total: int) -> Iterator[str]:
    form, warmup = meta.get("form"), meta.get("warmup")
    if form not in FORMS:
        yield f"form {form!r}: allowed: {', '.join(FORMS)}"
    if type(warmup) is not int or not 0 <= warmup <= total:
        yield f"warmup {warmup!r}: allowed: 0 to {total}"


def _is_row(name: str, array: Array) -> bool:
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    return array.ndim == 1 and kind in KINDS.get(name, INTEGERS).split()


def _borders(name: str, starts: Array, end: int) -> Iterator[str]:
    if not len(starts) or starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 0).any():
        yield f"{name}_starts does not go from 0 up to {end}"
