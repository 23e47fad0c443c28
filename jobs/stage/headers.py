"""What a weight file says of its own length."""

from __future__ import annotations

import json
import struct
from pathlib import Path

LONGEST_HEADER = 100_000_000
"""Bytes; safetensors' own limit for the JSON header of a file."""


def safetensors_size(path: Path) -> int | None:
    """Bytes that a safetensors file must have by its own header; None when that is no header.

    Format: 8 bytes little-endian header length, JSON header with data_offsets, data
    (huggingface/safetensors README, "Format").
    """
    try:
        with path.open("rb") as stream:
            length = int(struct.unpack("<Q", stream.read(8))[0])
            if length > LONGEST_HEADER:
                return None
            header = json.loads(stream.read(length))
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name[:2] != "__"]
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError, IndexError):
        return None
    return 8 + length + max(ends, default=0)
