"""Random prompts of exact lengths: alone, behind shared prefixes, or as the turns of sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jobs.prompts.drawing import (
    Requests,
    Texts,
    check_heads,
    content_tokens,
    draw_pieces,
    merge,
    wrap,
)
from jobs.prompts.draws import Draws, Integers
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces
from jobs.prompts.spec import Spec


@dataclass(frozen=True, slots=True)
class Drawn:
    """Lengths and pieces of the requests of one kind."""

    prompt_tokens: Integers
    output_tokens: Integers
    pieces: Texts


def input_range(spec: Spec, pieces: Pieces) -> tuple[int, int]:
    """The spec's range of prompt tokens, moved as sa-bench moves it where a template counts."""
    low, high = spec.input_range
    if spec.template_ratio is None or not pieces.before:
        return low, high
    extra = pieces.overhead
    return extra + max(1, int((high - extra) * spec.template_ratio)), high


def random_requests(spec: Spec, pieces: Pieces) -> Requests:
    """Requests whose lengths are uniform in the two ranges and that share no beginning. A measured
    one does not depend on how many warm-up ones there are."""
    drawn = [_random(spec, pieces, kind) for kind in ("warmup", "measured")]
    return _together(spec, pieces, drawn)


def prefix_requests(spec: Spec, pieces: Pieces) -> Requests:
    """Random requests of which each begins with one of `prefix_groups` prefixes."""
    low = input_range(spec, pieces)[0]
    shared = spec.prefix_tokens - pieces.overhead
    if shared < 1 or spec.prefix_tokens >= low:
        raise PromptError(
            f"a shared prefix of {spec.prefix_tokens} tokens: must be more than the "
            f"{pieces.overhead} tokens that every prompt has and less than the shortest, {low}"
        )
    lengths = np.full(spec.prefix_groups, shared)
    prefixes = draw_pieces(Draws("prefixes", spec.seed), pieces, lengths)
    drawn = []
    for kind in ("warmup", "measured"):
        prompt, output = _lengths(spec, pieces, kind)
        own = draw_pieces(
            Draws("pieces", spec.seed, kind), pieces, prompt - spec.prefix_tokens, lead=False
        )
        group = Draws("groups", spec.seed, kind).below(spec.prefix_groups, len(prompt))
        drawn.append(Drawn(prompt, output, merge([(prefixes, group), (own, None)], len(prompt))))
    return _together(spec, pieces, drawn, alike=shared + 1)


def turn_requests(spec: Spec, pieces: Pieces) -> Requests:
    """Sessions of `turns` messages, one session after the other; the ranges are one turn's."""
    made = random_requests(spec, pieces)
    number = np.concatenate([np.arange(spec.warmup), np.arange(spec.count)])
    turn = number % spec.turns
    measured = np.arange(len(number)) >= spec.warmup
    warm_sessions = -(-spec.warmup // spec.turns)
    session = number // spec.turns + np.where(measured, warm_sessions, 0)
    # What a turn sends is all that was said before in its session, and its own message.
    said = np.cumsum(made.prompt_tokens + made.output_tokens)
    first = np.arange(len(number)) - turn
    before = np.concatenate([[0], said])[first]
    return replace(
        made,
        prompt_tokens=said - before - made.output_tokens,
        session=session,
        turn=turn,
        wait_s=np.where(turn > 0, spec.wait_s, 0.0),
    )


def _lengths(spec: Spec, pieces: Pieces, kind: str) -> tuple[Integers, Integers]:
    count = spec.warmup if kind == "warmup" else spec.count
    label = (spec.seed, kind)
    prompt = Draws("prompt tokens", *label).between(input_range(spec, pieces), count)
    return prompt, Draws("output tokens", *label).between(spec.output_range, count)


def _random(spec: Spec, pieces: Pieces, kind: str) -> Drawn:
    prompt, output = _lengths(spec, pieces, kind)
    draws = Draws("pieces", spec.seed, kind)
    return Drawn(prompt, output, draw_pieces(draws, pieces, content_tokens(prompt, pieces)))


def _together(spec: Spec, pieces: Pieces, drawn: list[Drawn], alike: int = 0) -> Requests:
    """The requests of all kinds; PromptError when two begin alike beyond `alike` tokens."""
    flat = np.concatenate([d.pieces.flat for d in drawn])
    counts = np.concatenate([d.pieces.counts for d in drawn])
    if not alike:
        check_heads(flat, np.concatenate([[0], np.cumsum(counts)]))
    joined, starts = wrap(flat, counts, pieces)
    return Requests(
        warmup=spec.warmup,
        prompt_tokens=np.concatenate([d.prompt_tokens for d in drawn]),
        output_tokens=np.concatenate([d.output_tokens for d in drawn]),
        pieces=joined,
        starts=starts,
    )
