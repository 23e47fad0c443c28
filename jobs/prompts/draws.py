"""Random integers that are the same on every machine, defined here and nowhere else.

Philox4x64-10 (Salmon et al., SC11), keyed by the first 16 bytes of the SHA-256 of a label, read
as raw 64-bit words: numpy keeps bit generators' streams for good (NEP 19), unlike its
distributions. An integer below `bound` is (word >> 32) * bound >> 32, off uniform by less than
bound / 2**32.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Draws:
    """One stream of draws, which depends on its label only."""

    def __init__(self, *label: object) -> None:
        text = "/".join(map(str, label))
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
        self._bits = np.random.Philox(key=key)

    def below(self, bounds: int | Integers, *shape: int) -> Integers:
        """Integers of `shape` from 0 up to, not including, `bounds` (1 .. 2**32), broadcast."""
        raw = np.asarray(self._bits.random_raw(int(np.prod(shape))), dtype=np.uint64)
        scaled = (raw.reshape(shape) >> np.uint64(32)) * np.asarray(bounds, dtype=np.uint64)
        return (scaled >> np.uint64(32)).astype(np.int64)

    def between(self, bounds: tuple[int, int], count: int) -> Integers:
        """`count` uniform integers, both bounds included."""
        low, high = bounds
        return low + self.below(high - low + 1, count)

    def sample(self, population: int, count: int) -> Integers:
        """`count` different integers below `population`, in random order."""
        keys = self._bits.random_raw(population)
        return np.argsort(keys, kind="stable")[:count].astype(np.int64)
