"""Prompts of random token ids: the same on every machine for the same seed, and cheap to make.

A prompt is a head of ids drawn for it alone followed by blocks drawn from a pool, so that no two
prompts share a prefix (a prefix cache finds nothing) and 40,000 prompts of 8,000 tokens take a
few seconds and some 100 MB. Only `Random.random()` is used, whose sequence Python guarantees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

BLOCK_TOKENS = 64
POOL_BLOCKS = 4096


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids as comma-separated text in pieces, how many they are, and the answer's length."""

    pieces: Sequence[str]
    tokens: int
    output_tokens: int

    def ids(self) -> str:
        """The ids, comma-separated: the inside of a JSON list."""
        return ",".join(self.pieces)


class PromptMaker:
    """Draws prompts one after the other from one seed."""

    def __init__(self, seed: int, vocab_size: int) -> None:
        self.random = Random(seed)
        self.vocab_size = vocab_size
        self.pool = [self._ids(BLOCK_TOKENS) for _ in range(POOL_BLOCKS)]

    def make(
        self, count: int, input_range: Sequence[int], output_range: Sequence[int]
    ) -> list[Prompt]:
        """`count` prompts; both ranges are inclusive token counts."""
        return [
            self._prompt(self._between(*input_range), self._between(*output_range))
            for _ in range(count)
        ]

    def _prompt(self, tokens: int, output_tokens: int) -> Prompt:
        blocks = max(tokens // BLOCK_TOKENS - 1, 0)
        head = self._ids(tokens - blocks * BLOCK_TOKENS)
        pool, draw = self.pool, self.random.random
        body = [pool[int(draw() * POOL_BLOCKS)] for _ in range(blocks)]
        return Prompt([head, *body], tokens, output_tokens)

    def _between(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))

    def _ids(self, count: int) -> str:
        draw, size = self.random.random, self.vocab_size
        return ",".join([str(int(draw() * size)) for _ in range(count)])
