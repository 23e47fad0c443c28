"""A tokenizer asked once which pieces of text can be joined in any order.

What is proved, each by encoding it: every two of the joining words, in both orders; every block
(its first and last word are joining words); every beginning and end of a prompt with what the
server and the template put around it. So every pair of words that can come to stand side by side
in a prompt was encoded; whole prompts are encoded on top when a file is made (verify.py).
"""

from __future__ import annotations

from jobs.prompts.draws import Draws
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import BLOCK_TOKENS, NUM_BLOCKS, NUM_WORDS, Pieces
from jobs.prompts.surround import Surround, surround_of
from jobs.prompts.tokenizer import TextTokenizer
from jobs.prompts.words import Words, safe_words, single_token_words

MIN_WORDS = 32
MIN_BLOCKS = 256
MIN_LEADS = 16


class NoSafePiecesError(PromptError):
    """This tokenizer has no pieces that can be joined in any order."""


def probe(tokenizer: TextTokenizer, context: str, identity: str) -> Pieces:
    """Pieces proved to be joinable in any order; NoSafePiecesError where there are none."""
    words = single_token_words(tokenizer)
    surround = surround_of(tokenizer, context)
    if len(words.texts) < MIN_WORDS:
        raise NoSafePiecesError(f"it has only {len(words.texts)} words that are one token")
    joining = safe_words(tokenizer, words, NUM_WORDS)
    if len(joining) < MIN_WORDS:
        raise NoSafePiecesError(f"only {len(joining)} of its words stay apart in every order")
    blocks = safe_blocks(tokenizer, words, joining)
    if len(blocks) < MIN_BLOCKS:
        raise NoSafePiecesError(f"only {len(blocks)} of {NUM_BLOCKS} blocks keep their tokens")
    leads, overhead = safe_leads(words, joining, surround)
    texts = [*(words.texts[i] for i in joining), *leads, *blocks]
    around = [text for text in (surround.before, surround.after) if text]
    return Pieces(
        form="messages" if context == "messages" else "text",
        texts=tuple(text.encode() for text in [*texts, *around]),
        words=len(joining),
        leads=len(leads),
        blocks=len(blocks),
        before=(len(texts),) if surround.before else (),
        after=(len(texts) + len(around) - 1,) if surround.after else (),
        overhead=overhead,
        identity=identity,
    )


def safe_blocks(tokenizer: TextTokenizer, words: Words, joining: list[int]) -> list[str]:
    """Random blocks of BLOCK_TOKENS words that begin and end with joining words."""
    draws = Draws("blocks", len(words.texts), len(joining))
    rows = draws.below(len(words.texts), NUM_BLOCKS, BLOCK_TOKENS)
    edges = draws.below(len(joining), NUM_BLOCKS, 2)
    made = []
    for row, (first, last) in zip(rows.tolist(), edges.tolist(), strict=True):
        made.append([joining[first], *row[1:-1], joining[last]])
    texts = [words.join(row) for row in made]
    encoded = tokenizer.encode_plain([words.alone(text) for text in texts])
    expected = [[words.ids[i] for i in row] for row in made]
    return [t for t, e, x in zip(texts, encoded, expected, strict=True) if e == x]


def safe_leads(words: Words, joining: list[int], surround: Surround) -> tuple[list[str], int]:
    """Joining words as they begin a prompt, and the tokens that every prompt has besides.

    With the leading space where that is one token there, else without; a chat message never has
    it, because templates strip messages. Every lead is tried, and every joining word as the end.
    """
    forms = [[words.texts[i] for i in joining], [words.texts[i][1:] for i in joining]]
    if words.strips:
        forms.reverse()
    if surround.context == "messages":
        forms = [[words.texts[i][1:] for i in joining]]
    best: tuple[list[str], int] = ([], 0)
    for form in forms:
        tails = list(zip(joining, [*joining[1:], joining[0]], strict=True))
        texts = [word + words.join(tail) for word, tail in zip(form, tails, strict=True)]
        extra = [len(ids) - 3 for ids in surround.encode(texts)]
        overhead = min(set(extra), key=lambda e: (-extra.count(e), e))
        leads = [w for w, e in zip(form, extra, strict=True) if e == overhead]
        if len(leads) > len(best[0]):
            best = leads, overhead
        if len(leads) == len(form):
            break
    leads, overhead = best
    ends = [leads[0] + words.texts[i] for i in joining] if leads else []
    if len(leads) < MIN_LEADS or any(len(ids) - 2 != overhead for ids in surround.encode(ends)):
        raise NoSafePiecesError("its words do not keep their tokens at the ends of a prompt")
    return leads, overhead
