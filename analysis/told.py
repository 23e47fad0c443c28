"""Numbers in other tools' JSON, read with suspicion."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> float | None:
    """A finite number that is not negative, also one in a string; None for anything else.

    `vllm bench serve --metadata` and InferenceX write numbers as strings.
    """
    if isinstance(value, str) and len(value) < 20 and value.replace(".", "", 1).isdecimal():
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < 1e18 else None


def whole(value: Any) -> int | None:
    """The same without its fraction."""
    found = number(value)
    return int(found) if found is not None else None


def count(value: Any) -> int | None:
    """A positive whole number."""
    return whole(value) or None
