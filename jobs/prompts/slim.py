"""A BPE tokenizer without the tokens that ASCII text cannot come to: the same ids, less memory.

A merge puts two symbols side by side together, so a token can only arise where all its characters
stand in the text. Without the tokens that have others, and without their merges, every text of the
kept characters is split as before; the rest of a large vocabulary is other scripts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SPACE = "▁"
COMMENT = "#version"
"""A merge written as one text that begins so is taken for a comment."""


def byte_letters() -> list[str]:
    """How byte-level tokenizers write each byte: printable Latin-1 as itself, the others from 256
    on (GPT-2's encoder.py, bytes_to_unicode)."""
    themselves = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in themselves]
    number = {byte: 256 + place for place, byte in enumerate(others)}
    return [chr(number.get(byte, byte)) for byte in range(256)]


def kept_letters(around: str = "") -> frozenset[str]:
    """Characters of tokens that ASCII text and the text `around` it can come to."""
    letters = byte_letters()
    written = {letters[byte] for byte in [*range(128), *around.encode()]}
    return frozenset({*map(chr, range(128)), SPACE, *written, *around})


def slim(tokenizer: Mapping[str, Any], around: str = "") -> dict[str, Any] | None:
    """A tokenizer.json without what ASCII text amid `around` does not need; None where the rest is
    not known to split the same: other models than BPE, or BPE that marks the parts of words."""
    model = tokenizer["model"]
    marks = ("continuing_subword_prefix", "end_of_word_suffix", "dropout")
    if model.get("type") != "BPE" or any(model.get(mark) for mark in marks):
        return None
    letters = kept_letters(around)
    vocabulary = {token: i for token, i in model["vocab"].items() if letters.issuperset(token)}
    for added in tokenizer.get("added_tokens", ()):
        # In the model's vocabulary they keep their numbers, although numbers before are missing.
        vocabulary[added["content"]] = added["id"]
    if model.get("unk_token"):
        vocabulary[model["unk_token"]] = model["vocab"][model["unk_token"]]
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    merges = [[a, b] for a, b in pairs if letters.issuperset(a) and letters.issuperset(b)]
    return {**tokenizer, "model": {**model, "vocab": vocabulary, "merges": written(merges)}}


def written(merges: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Merges as one text each where they can be: parsed in half the memory that pairs take."""
    texts = [" ".join(pair) for pair in merges]
    if any(text.count(" ") != 1 or text.startswith(COMMENT) for text in texts):
        return merges
    return texts


def slimmed(text: bytes, around: str = "") -> bytes:
    """The same of a tokenizer.json's bytes; empty where there is none."""
    small = slim(json.loads(text), around)
    return json.dumps(small, ensure_ascii=False).encode() if small else b""
