"""Memory that is free again, given back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Has the C library return what it keeps of freed memory (malloc_trim(3) of glibc, which keeps
    120 MB after a large tokenizer.json is parsed); nothing where it has no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
