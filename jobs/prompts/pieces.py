"""The pieces every prompt is joined from: single words, and blocks of words.

Whatever makes them has proved that they can stand beside each other: a prompt's tokens are then
the sum of its pieces' tokens, and only piece numbers need be drawn and stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobs.prompts.draws import Draws

BLOCK_TOKENS = 64
NUM_BLOCKS = 4096
NUM_WORDS = 256
ID_SEPARATOR = b","


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Texts by number: words, then leads, then blocks, then what stands around a prompt.

    A lead is a word as it is written at the beginning of a prompt. Words and leads are one token,
    blocks BLOCK_TOKENS. `before` and `after` are numbers of pieces that every prompt has, whose
    tokens together with those that the server adds are `overhead`.
    """

    form: str
    """text, ids (then a text is comma-separated ids) or messages."""
    texts: tuple[bytes, ...]
    words: int
    leads: int
    blocks: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    overhead: int = 0
    identity: str
    """What these pieces are, as text: enters the key of every file made of them."""

    @property
    def first_lead(self) -> int:
        """Number of the first lead."""
        return self.words

    @property
    def first_block(self) -> int:
        """Number of the first block."""
        return self.words + self.leads


def id_pieces(vocab_size: int) -> Pieces:
    """Pieces of token ids below `vocab_size`, for servers that are sent ids."""
    draws = Draws("ids", vocab_size)
    words = [b"%d" % i for i in draws.below(vocab_size, NUM_WORDS).tolist()]
    blocks = draws.below(vocab_size, NUM_BLOCKS, BLOCK_TOKENS).tolist()
    texts = [*words, *words, *(ID_SEPARATOR.join(b"%d" % i for i in row) for row in blocks)]
    return Pieces(
        form="ids",
        texts=tuple(texts),
        words=NUM_WORDS,
        leads=NUM_WORDS,
        blocks=NUM_BLOCKS,
        identity=f"ids below {vocab_size}",
    )
