"""The made-up model: every next token is a function of the whole token history.

The history is condensed into a `State` that can be extended token by token and carried to
another process, as a KV cache is. So the answer after a right transfer equals the answer without
one, and the answer after somebody else's state differs.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

VOCAB_SIZE = 32_000
TOP = 20
"""How many candidates a token comes with: vLLM's own limit of logprobs."""

BYTES_PER_TOKEN = 4
MAX_TOKEN_ID = 2**32 - 1
EOS_EVERY = 97
"""A token whose id is a multiple of this ends the answer, unless EOS is ignored."""

NUMBER_EVERY = 10
CONSONANTS = "bcdfghjklmnprstvz"
VOWELS = "aeiou"

Candidate = tuple[int, float]
"""A token id and its log probability."""


@dataclass(frozen=True, slots=True)
class State:
    """All tokens so far, condensed to 64 bits."""

    crc: int = 0
    adler: int = 1

    def after(self, tokens: Sequence[int]) -> State:
        """The state once `tokens` were read too; reading them one by one gives the same."""
        data = array("I", tokens).tobytes()
        return State(zlib.crc32(data, self.crc), zlib.adler32(data, self.adler))

    def to_hex(self) -> str:
        """The state as it travels between workers."""
        return f"{self.crc:08x}{self.adler:08x}"

    @classmethod
    def from_hex(cls, text: str) -> State:
        """The state another worker sent; ValueError when it is none."""
        if len(text) != 16:
            raise ValueError(f"expected 16 hex digits, found {text!r}")
        return cls(int(text[:8], 16), int(text[8:], 16))


def _digest(state: State, salt: str) -> bytes:
    return hashlib.shake_128(f"{state.to_hex()}{salt}".encode()).digest(5 * TOP)


def next_token(state: State, salt: str = "") -> int:
    """The most likely next token; `salt` stands for the sampling seed."""
    return int.from_bytes(_digest(state, salt)[:4], "big") % VOCAB_SIZE


def candidates(state: State, salt: str = "") -> list[Candidate]:
    """The 20 most likely next tokens, distinct, best first; the first is `next_token`'s."""
    digest = _digest(state, salt)
    seen: set[int] = set()
    found: list[Candidate] = []
    logprob = -0.1
    for place in range(TOP):
        token = int.from_bytes(digest[4 * place : 4 * place + 4], "big") % VOCAB_SIZE
        while token in seen:
            token = (token + 1) % VOCAB_SIZE
        seen.add(token)
        logprob = round(logprob - 0.05 - digest[4 * TOP + place] / 256, 6)
        found.append((token, logprob))
    return found


def token_text(token: int) -> str:
    """The word that stands for a token: different for every id below VOCAB_SIZE."""
    if token % NUMBER_EVERY == 0:
        return f" {token}"
    word = ""
    rest = token
    while True:
        rest, consonant = divmod(rest, len(CONSONANTS))
        rest, vowel = divmod(rest, len(VOWELS))
        word += CONSONANTS[consonant] + VOWELS[vowel]
        if not rest:
            return f" {word}"


def tokenize(text: str) -> list[int]:
    """One token per 4 bytes of UTF-8; an empty text has one token, as if it had a BOS."""
    pieces = re.findall(b"(?s).{1,%d}" % BYTES_PER_TOKEN, text.encode("utf-8", "replace"))
    return [zlib.crc32(piece) % VOCAB_SIZE for piece in pieces] or [0]
