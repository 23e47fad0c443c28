"""Every source of requests by its name."""

from __future__ import annotations

from collections.abc import Callable

from jobs.prompts.drawing import Requests
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces
from jobs.prompts.random_source import prefix_requests, random_requests, turn_requests
from jobs.prompts.spec import Spec
from jobs.prompts.trace_source import trace_requests

Source = Callable[[Spec, Pieces], Requests]
MAKERS: dict[str, Source] = {
    "random": random_requests,
    "shared_prefix": prefix_requests,
    "multi_turn": turn_requests,
    "trace": trace_requests,
}


def make_requests(spec: Spec, pieces: Pieces) -> Requests:
    """The requests a spec describes; PromptError where they cannot be made of these pieces."""
    if spec.source == "multi_turn" and pieces.form != "messages":
        raise PromptError(
            "source multi_turn: sessions are sent as chat messages, which need text and the "
            f"tokenizer's chat template; these prompts are {pieces.form}"
        )
    if pieces.form == "messages" and spec.source != "multi_turn":
        raise PromptError(f"source {spec.source}: is sent as completions, not as chat messages")
    return MAKERS[spec.source](spec, pieces)
