"""Requests as arrays: which pieces each prompt has, its lengths, and when it is sent."""

from __future__ import annotations

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


def draw_pieces(
    draws: Draws, pieces: Pieces, tokens: Integers, head: int = HEAD_TOKENS
) -> tuple[npt.NDArray[Any], Integers]:
    """Piece numbers of one text per entry of `tokens` (its content tokens), one after the other,
    and how many each has: a lead and `head` - 1 words of its own, blocks, then words to the exact
    length. Every text uses up the same number of draws, so none depends on another's length."""
    most = max(int(tokens.max(initial=1)) - head, 0) // BLOCK_TOKENS
    bounds = np.array(
        [pieces.leads, *[pieces.words] * (head - 1)]
        + [pieces.blocks] * most
        + [pieces.words] * (BLOCK_TOKENS - 1),
        dtype=np.int64,
    )
    offsets = np.zeros_like(bounds)
    offsets[0] = pieces.first_lead
    offsets[head : head + most] = pieces.first_block
    place = np.concatenate([np.arange(head), np.arange(most), np.arange(BLOCK_TOKENS - 1)])
    flat, counts = [], []
    for begin in range(0, len(tokens), ROWS_AT_ONCE):
        rows = tokens[begin : begin + ROWS_AT_ONCE]
        drawn = draws.below(bounds, len(rows), len(bounds)) + offsets
        rest = np.maximum(rows - head, 0)
        blocks, words = rest // BLOCK_TOKENS, rest % BLOCK_TOKENS
        limits = np.repeat(
            np.stack([np.minimum(rows, head), blocks, words], axis=1),
            [head, most, BLOCK_TOKENS - 1],
            axis=1,
        )
        used = place < limits
        flat.append(drawn[used].astype(np.uint32))
        counts.append(used.sum(axis=1))
    if not flat:
        return np.zeros(0, np.uint32), np.zeros(0, np.int64)
    return np.concatenate(flat), np.concatenate(counts)


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
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if not pieces.before and not pieces.after:
        return flat, starts
    front = np.repeat(starts[:-1], len(pieces.before))
    back = np.repeat(starts[1:], len(pieces.after))
    where = np.concatenate([front, back])
    values = np.concatenate(
        [np.tile(np.array(p, np.uint32), len(counts)) for p in (pieces.before, pieces.after)]
    )
    # np.insert is stable: at one place, a text's end comes before the next one's beginning only
    # when it is given first.
    order = np.argsort(np.concatenate([front * 2 + 1, back * 2]), kind="stable")
    extra = len(pieces.before) + len(pieces.after)
    return np.insert(flat, where[order], values[order]), starts + extra * np.arange(len(starts))


def check_heads(flat: npt.NDArray[Any], starts: Integers, head: int = HEAD_TOKENS) -> None:
    """PromptError when two texts of at least `head` tokens begin with the same `head` pieces."""
    whole = np.flatnonzero(np.diff(starts) >= head)
    heads = flat[starts[whole, None] + np.arange(head)]
    if len(np.unique(heads, axis=0)) != len(heads):
        raise PromptError("two prompts begin alike: choose another seed")
