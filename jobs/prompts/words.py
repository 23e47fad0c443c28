"""Words that are one token, and the proof that they stay so beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jobs.prompts.draws import Draws
from jobs.prompts.tokenizer import TextTokenizer

SPACE_MARKS = ("Ġ", "▁", " ")
ENOUGH = 256
PAIRS_AT_ONCE = 2048
WORDS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Words:
    """Words with their leading space, each one token, and those tokens' ids."""

    texts: list[str]
    ids: list[int]
    strips: bool
    """Whether the tokenizer puts a space in front of every text, so that ours must go there."""

    def alone(self, text: str) -> str:
        """Words joined, as the beginning of a text."""
        return text[1:] if self.strips else text

    def join(self, numbers: Iterable[int]) -> str:
        """The words of these numbers, joined."""
        return "".join(map(self.texts.__getitem__, numbers))


def single_token_words(tokenizer: TextTokenizer) -> Words:
    """Words of ASCII letters, with their space, that the tokenizer encodes as one token each."""
    marked: list[tuple[str, int]] = []
    bare: list[tuple[str, int]] = []
    for token, spelling in tokenizer.tokens():
        mark = next((m for m in SPACE_MARKS if spelling.startswith(m)), "")
        word = spelling.removeprefix(mark)
        if word.isascii() and word.isalpha():
            (marked if mark else bare).append((" " + word, token))
    found = []
    # Spelled with a mark: such words have their space in them, or get it from the tokenizer at the
    # beginning of a text. Spelled without: spaces are only borders (BERT).
    for candidates, strips in ((marked, False), (marked, True), (bare, False)):
        kept = _one_token(tokenizer, candidates, strips)
        found.append(Words([text for text, _ in kept], [id_ for _, id_ in kept], strips))
        if len(kept) >= ENOUGH:
            break
    return max(found, key=lambda words: len(words.texts))


def _one_token(
    tokenizer: TextTokenizer, candidates: Sequence[tuple[str, int]], strips: bool
) -> list[tuple[str, int]]:
    """The candidates that are encoded as the one token they are spelled by."""
    kept = []
    for begin in range(0, len(candidates), WORDS_AT_ONCE):
        part = candidates[begin : begin + WORDS_AT_ONCE]
        encoded = tokenizer.encode_plain([text[1:] if strips else text for text, _ in part])
        kept += [c for c, ids in zip(part, encoded, strict=True) if ids == [c[1]]]
    return kept


def every_pair(count: int) -> Iterator[int]:
    """Numbers below `count` in an order that has every ordered pair beside each other once (a de
    Bruijn sequence of order 2, from its Lyndon words)."""
    for first in range(count):
        yield first
        for second in range(first + 1, count):
            yield first
            yield second
    yield 0


def safe_words(tokenizer: TextTokenizer, words: Words, wanted: int) -> list[int]:
    """Up to `wanted` words, drawn at random, of which every two stay two tokens in both orders.

    All pairs are encoded in long texts; where a tokenizer joins some, the words that take part
    most often are left out until none does.
    """
    chosen: list[int] = (
        Draws("safe words", len(words.texts)).sample(len(words.texts), wanted).tolist()
    )
    while len(chosen) > 1:
        if _pairs_hold(tokenizer, words, chosen):
            break
        clashes = _clashing_pairs(tokenizer, words, chosen)
        if not clashes:
            return []
        chosen = _without_clashes(chosen, clashes)
    return chosen


def _pairs_hold(tokenizer: TextTokenizer, words: Words, chosen: Sequence[int]) -> bool:
    row = [chosen[i] for i in every_pair(len(chosen))]
    parts = [row[i : i + PAIRS_AT_ONCE + 1] for i in range(0, len(row) - 1, PAIRS_AT_ONCE)]
    encoded = tokenizer.encode_plain([words.alone(words.join(part)) for part in parts])
    expected = [[words.ids[i] for i in part] for part in parts]
    return encoded == expected


def _clashing_pairs(
    tokenizer: TextTokenizer, words: Words, chosen: Sequence[int]
) -> list[tuple[int, int]]:
    pairs = [(a, b) for a in chosen for b in chosen]
    encoded = tokenizer.encode_plain([words.alone(words.join(pair)) for pair in pairs])
    return [
        pair
        for pair, ids in zip(pairs, encoded, strict=True)
        if ids != [words.ids[i] for i in pair]
    ]


def _without_clashes(chosen: Sequence[int], clashes: Sequence[tuple[int, int]]) -> list[int]:
    left, kept = list(clashes), list(chosen)
    while left:
        counts = Counter(word for pair in left for word in set(pair))
        # The smaller number on a tie: the same words on every machine.
        worst = min(counts, key=lambda word: (-counts[word], word))
        kept.remove(worst)
        left = [pair for pair in left if worst not in pair]
    return kept
