"""A recorded trace replayed (Mooncake's format): arrival times, lengths, and which blocks of the
prompts were the same; the text is random.

JSON lines {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [one per
block of 512 tokens]}: equal ids in equal places are equal text. Source: kvcache-ai/Mooncake,
FAST25-release/traces, README.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobs.prompts.drawing import Requests, Texts, content_tokens, draw_pieces, merge, wrap
from jobs.prompts.draws import Draws, Integers
from jobs.prompts.pieces import BLOCK_TOKENS, Pieces
from jobs.prompts.spec import Spec
from jobs.prompts.trace_file import Trace, read_trace


def trace_requests(spec: Spec, pieces: Pieces) -> Requests:
    """The first requests of a trace; warm-up ones have their lengths and prompts of their own."""
    trace = read_trace(Path(spec.trace_path), spec.count, spec.trace_block_tokens)
    inputs, outputs = np.array(trace.input_tokens), np.array(trace.output_tokens)
    warm = np.resize(np.arange(spec.count), spec.warmup)
    own = draw_pieces(
        Draws("pieces", spec.seed, "warmup"), pieces, content_tokens(inputs[warm], pieces)
    )
    replayed = _replayed(spec, pieces, trace, content_tokens(inputs, pieces))
    flat, starts = wrap(
        np.concatenate([own.flat, replayed.flat]),
        np.concatenate([own.counts, replayed.counts]),
        pieces,
    )
    times = (np.array(trace.arrival_s) - trace.arrival_s[0]) / spec.trace_speed
    return Requests(
        warmup=spec.warmup,
        prompt_tokens=np.concatenate([inputs[warm], inputs]),
        output_tokens=np.concatenate([outputs[warm], outputs]),
        pieces=flat,
        starts=starts,
        arrival_s=np.concatenate([np.zeros(spec.warmup), times]),
    )


def _replayed(spec: Spec, pieces: Pieces, trace: Trace, content: Integers) -> Texts:
    """A lead, the blocks that the ids name, and words of the request's own to its exact length."""
    size = spec.trace_block_tokens
    names = sorted({i for ids in trace.hash_ids for i in ids})
    row_of = {name: row for row, name in enumerate(names)}
    blocks = _blocks(spec, pieces, names)
    tokens_of = np.ones(len(pieces.texts), dtype=np.int64)
    tokens_of[pieces.first_block : pieces.first_block + pieces.blocks] = BLOCK_TOKENS
    flat, counts, missing = [], [], []
    for ids, wanted in zip(trace.hash_ids, (content - 1).tolist(), strict=True):
        rows = [row_of[i] for i in ids[: -(-wanted // size)]]
        shared = blocks[rows].ravel()
        # The last block is cut: its pieces as far as they fit, own words after.
        held = int(np.searchsorted(np.cumsum(tokens_of[shared]), wanted, side="right"))
        shared = np.concatenate([[pieces.first_lead], shared[:held]])
        flat.append(shared)
        counts.append(len(shared))
        missing.append(wanted - int(tokens_of[shared[1:]].sum()))
    beginnings = Texts(np.concatenate(flat).astype(np.uint32), np.array(counts))
    ends = draw_pieces(
        Draws("ends", spec.seed), pieces, np.array(missing, dtype=np.int64), lead=False
    )
    return merge([(beginnings, None), (ends, None)], len(counts))


def _blocks(spec: Spec, pieces: Pieces, names: list[int]) -> Integers:
    """Pieces of every named block, a row each: words first, so that different blocks differ from
    their beginning, then blocks."""
    whole = max((spec.trace_block_tokens - 16) // BLOCK_TOKENS, 0)
    words = spec.trace_block_tokens - whole * BLOCK_TOKENS
    widths = [words, whole]
    bounds = np.repeat([pieces.words, pieces.blocks], widths)
    offsets = np.repeat([0, pieces.first_block], widths)
    # One stream per block: a block is the same whatever else the trace holds.
    rows = [Draws("trace", spec.seed, n).below(bounds, len(bounds)) for n in names]
    drawn: Integers = np.array(rows, dtype=np.int64).reshape(len(names), len(bounds))
    drawn += offsets
    return drawn
