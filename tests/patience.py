"""Waiting for what must happen: long, since how fast the machine is, is not what tests are about.

How fast the product is, benchmarks/ and the fault matrix measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Until it holds; AssertionError with `what` where it never does."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.05)
