"""Which requests are sent one after the other: the turns of one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.prompts.reader import PromptFile


def turns_of(prompts: PromptFile, indices: range) -> list[Sequence[int]]:
    """The requests among `indices` as jobs, in the order of their first request."""
    if prompts.session is None or prompts.turn is None:
        return [(index,) for index in indices]
    found: dict[int, list[int]] = {}
    for index in indices:
        found.setdefault(int(prompts.session[index]), []).append(index)
    turn = prompts.turn
    return [sorted(job, key=lambda index: int(turn[index])) for job in found.values()]
