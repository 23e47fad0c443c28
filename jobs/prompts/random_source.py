"""Random prompts of exact lengths that share no beginning: the published benchmark's load."""

from __future__ import annotations

import numpy as np

from jobs.prompts.drawing import Requests, check_heads, content_tokens, draw_pieces, wrap
from jobs.prompts.draws import Draws
from jobs.prompts.pieces import Pieces
from jobs.prompts.spec import Spec


def random_requests(spec: Spec, pieces: Pieces) -> Requests:
    """Requests whose lengths are uniform in the two ranges. A measured one does not depend on how
    many warm-up ones there are."""
    parts = []
    for kind, count in (("warmup", spec.warmup), ("measured", spec.count)):
        label = (spec.seed, kind)
        prompt = Draws("prompt tokens", *label).between(spec.input_range, count)
        output = Draws("output tokens", *label).between(spec.output_range, count)
        tokens = content_tokens(prompt, pieces)
        flat, counts = draw_pieces(Draws("pieces", *label), pieces, tokens)
        parts.append((prompt, output, flat, counts))
    prompt, output, flat, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    check_heads(flat, np.concatenate([[0], np.cumsum(counts)]))
    joined, starts = wrap(flat, counts, pieces)
    return Requests(
        warmup=spec.warmup,
        prompt_tokens=prompt,
        output_tokens=output,
        pieces=joined,
        starts=starts,
    )
