"""Requests as arrays: which pieces each prompt has, its lengths, and when it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.prompts.draws import Draws, Integers
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import BLOCK_TOKENS, Pieces

HEAD_TOKENS = 16
"""Tokens at the beginning of a prompt that are drawn for it alone: 128 bits where there are 256
words, so that no two prompts share them (checked when made)."""
ROWS_AT_ONCE = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests in the order they are sent, warm-up first. Arrays have one entry a request, but
    `pieces` (all piece numbers, one request after the other) and `starts` (one entry more)."""

    warmup: int
    prompt_tokens: Integers
    output_tokens: Integers
    pieces: npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
    starts: Integers
    arrival_s: npt.NDArray[np.float64] | None = None
    session: Integers | None = None
    turn: Integers | None = None
    wait_s: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Texts:
    """Piece numbers of several texts, one text after the other, and how many each has."""

    flat: npt.NDArray[Any]
    counts: Integers

    @property
    def starts(self) -> Integers:
        """Where each text's pieces begin, and where the last one's end."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)


def draw_pieces(draws: Draws, pieces: Pieces, tokens: Integers, lead: bool = True) -> Texts:
    """A text of exactly that many tokens for each entry of `tokens`: HEAD_TOKENS words of its own,
    the first written as a prompt's beginning if `lead`; blocks; words for the rest. Every text
    uses up as many draws as the longest, so that none depends on another's length."""
    head = HEAD_TOKENS
    most = max(int(tokens.max(initial=1)) - head, 0) // BLOCK_TOKENS
    widths = [head, most, BLOCK_TOKENS - 1]
    bounds = np.repeat([pieces.words, pieces.blocks, pieces.words], widths)
    offsets = np.repeat([0, pieces.first_block, 0], widths)
    if lead:
        bounds[0], offsets[0] = pieces.leads, pieces.first_lead
    place = np.concatenate([np.arange(width) for width in widths])
    flat, counts = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    for begin in range(0, len(tokens), ROWS_AT_ONCE):
        rows = tokens[begin : begin + ROWS_AT_ONCE]
        drawn = draws.below(bounds, len(rows), len(bounds)) + offsets
        rest = np.maximum(rows - head, 0)
        used_of = [np.minimum(rows, head), rest // BLOCK_TOKENS, rest % BLOCK_TOKENS]
        used = place < np.repeat(np.stack(used_of, axis=1), widths, axis=1)
        flat.append(drawn[used].astype(np.uint32))
        counts.append(used.sum(axis=1))
    return Texts(np.concatenate(flat), np.concatenate(counts))


def merge(parts: Sequence[tuple[Texts, Integers | None]], count: int) -> Texts:
    """`count` texts, each of one text of every part after the other: the one that the part's index
    names, or the one of the same number."""
    chosen = [(p, np.arange(count) if index is None else index) for p, index in parts]
    sizes = np.stack([p.counts[index] for p, index in chosen], axis=1)
    begins = np.stack([p.starts[index] for p, index in chosen], axis=1)
    shift = np.cumsum([0, *(len(p.flat) for p, _ in chosen[:-1])])
    lengths = sizes.ravel()
    # Of each text: from its place in the pool to its place in the result; 32 bits for memory.
    moved = (begins + shift).ravel() - (np.cumsum(lengths) - lengths)
    where = np.repeat(moved.astype(np.int32), lengths)
    where += np.arange(len(where), dtype=np.int32)
    pool = np.concatenate([p.flat for p, _ in chosen])
    return Texts(pool[where], sizes.sum(axis=1))


def content_tokens(prompt_tokens: Integers, pieces: Pieces) -> Integers:
    """What is left for random words; PromptError when special tokens leave nothing."""
    content = prompt_tokens - pieces.overhead
    if len(content) and int(content.min()) < 1:
        raise PromptError(
            f"a prompt of {int(prompt_tokens.min())} tokens: special tokens and template are "
            f"{pieces.overhead} already; ask for at least {pieces.overhead + 1}"
        )
    return content


def wrap(flat: npt.NDArray[Any], counts: Integers, pieces: Pieces) -> tuple[Any, Integers]:
    """Each text between the pieces that stand around every prompt; the new starts as well."""
    texts = Texts(flat, counts)
    if pieces.before or pieces.after:
        nothing = np.zeros(len(counts), np.int64)
        around = [
            Texts(np.array(numbers, np.uint32), np.array([len(numbers)]))
            for numbers in (pieces.before, pieces.after)
        ]
        parts = [(around[0], nothing), (texts, None), (around[1], nothing)]
        texts = merge(parts, len(counts))
    return texts.flat, texts.starts


def check_heads(flat: npt.NDArray[Any], starts: Integers) -> None:
    """PromptError when two texts of HEAD_TOKENS tokens or more have the same head."""
    head = HEAD_TOKENS
    whole = np.flatnonzero(np.diff(starts) >= head)
    heads = flat[starts[whole, None] + np.arange(head)]
    if len(np.unique(heads, axis=0)) != len(heads):
        raise PromptError("two prompts begin alike: choose another seed")
