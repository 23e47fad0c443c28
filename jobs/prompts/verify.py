"""Whole prompts encoded again by the real tokenizer: the last word on their lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobs.prompts.errors import PromptError
from jobs.prompts.reader import PromptFile
from jobs.prompts.surround import Surround

ALL_BELOW_TOKENS = 1_000_000
SAMPLE = 64
AT_ONCE = 16


def numbers_to_check(file: PromptFile, wanted: str) -> list[int]:
    """auto: all of a file of less than a million tokens, else 64 spread evenly over the file and
    the shortest and the longest prompt. all. Or how many."""
    tokens, total = file.prompt_tokens, len(file)
    first = np.flatnonzero(file.turn == 0) if file.turn is not None else np.arange(total)
    if wanted == "auto":
        wanted = "all" if int(tokens[first].sum()) < ALL_BELOW_TOKENS else str(SAMPLE)
    if wanted == "all" or int(wanted) >= len(first):
        return first.tolist()
    if int(wanted) == 0:
        return []
    spread = first[np.linspace(0, len(first) - 1, int(wanted)).astype(int)]
    ends = [first[np.argmin(tokens[first])], first[np.argmax(tokens[first])]]
    return sorted({*spread.tolist(), *(int(number) for number in ends)})


def verify(file: PromptFile, surround: Surround, wanted: str) -> int:
    """How many prompts were encoded again; PromptError at the first with another length.

    Of a session only the first turn can be: later ones have the server's answers in them.
    """
    numbers = numbers_to_check(file, wanted)
    for begin in range(0, len(numbers), AT_ONCE):
        _check(file, surround, numbers[begin : begin + AT_ONCE])
    return len(numbers)


def _check(file: PromptFile, surround: Surround, numbers: Sequence[int]) -> None:
    texts = [file.text(number).decode() for number in numbers]
    for number, ids in zip(numbers, surround.encode_whole(texts), strict=True):
        claimed = int(file.prompt_tokens[number])
        if len(ids) != claimed:
            raise PromptError(
                f"{file.path}: prompt {number} has {len(ids)} tokens when encoded, not {claimed}; "
                f"tokenizer {surround.tokenizer.name} does not join its pieces as it did when it "
                "was probed: delete the prompt cache and try again"
            )
