"""The slow exact way, where a tokenizer has no safe pieces: encode each prompt, mend its length."""

from __future__ import annotations

import logging
import time

import numpy as np

from jobs.prompts.drawing import Requests
from jobs.prompts.draws import Draws
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces
from jobs.prompts.spec import Spec
from jobs.prompts.surround import Surround
from jobs.prompts.words import Words

MAX_REPAIRS = 10
MIN_WORDS = 16
REPORT_EVERY_S = 10.0

log = logging.getLogger("prompts")


def repaired_requests(
    spec: Spec, words: Words, surround: Surround, identity: str
) -> tuple[Requests, Pieces]:
    """Random requests whose prompts are a piece each; PromptError where a length cannot be met.

    Costs one or more encodings a prompt and keeps all texts in memory.
    """
    if len(words.texts) < MIN_WORDS:
        raise PromptError(
            f"tokenizer {surround.tokenizer.name}: {len(words.texts)} words that are one token, "
            f"random text needs {MIN_WORDS}: set workload.prompt_form=ids"
        )
    texts: list[bytes] = []
    lengths: list[np.ndarray] = []
    told = time.monotonic()
    for kind, count in (("warmup", spec.warmup), ("measured", spec.count)):
        prompt = Draws("prompt tokens", spec.seed, kind).between(spec.input_range, count)
        output = Draws("output tokens", spec.seed, kind).between(spec.output_range, count)
        lengths.append(np.stack([prompt, output]))
        for index, tokens in enumerate(prompt.tolist()):
            draws = Draws("repaired", spec.seed, kind, index)
            texts.append(_prompt(draws, words, surround, tokens))
            if time.monotonic() - told > REPORT_EVERY_S:
                told = time.monotonic()
                log.info("%d of %d prompts", len(texts), spec.warmup + spec.count)
    if len(set(texts)) != len(texts):
        raise PromptError("two prompts are the same: ask for longer ones or another seed")
    prompt, output = np.concatenate(lengths, axis=1)
    requests = Requests(
        warmup=spec.warmup,
        prompt_tokens=prompt,
        output_tokens=output,
        pieces=np.arange(len(texts), dtype=np.uint32),
        starts=np.arange(len(texts) + 1, dtype=np.int64),
    )
    form = "messages" if surround.context == "messages" else "text"
    pieces = Pieces(form=form, texts=tuple(texts), words=0, leads=0, blocks=0, identity=identity)
    return requests, pieces


def _prompt(draws: Draws, words: Words, surround: Surround, tokens: int) -> bytes:
    """A whole prompt of exactly `tokens` tokens, template included."""
    chosen: list[int] = draws.below(len(words.texts), tokens).tolist()
    found = 0
    for _ in range(MAX_REPAIRS):
        content = words.alone(words.join(chosen))
        found = len(surround.encode([content])[0])
        if found == tokens:
            return (surround.before + content + surround.after).encode()
        if found < tokens:
            chosen += draws.below(len(words.texts), tokens - found).tolist()
        else:
            del chosen[max(len(chosen) - (found - tokens), 0) :]
    raise PromptError(
        f"tokenizer {surround.tokenizer.name}: no prompt of exactly {tokens} tokens after "
        f"{MAX_REPAIRS} repairs (the last had {found})"
    )
