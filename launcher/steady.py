"""Results that are made once while nothing changes what they are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

A = TypeVar("A")
R = TypeVar("R")

_kept: ContextVar[dict[tuple[Any, int], tuple[Any, Any]] | None] = ContextVar("kept", default=None)


@contextmanager
def steady() -> Iterator[None]:
    """Inside, a function that is made_once is asked once for each object.

    The rules of one configuration ask for its plan and placement again and again; outside, a
    configuration may change between two questions, and nothing is kept.
    """
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def made_once(function: Callable[[A], R]) -> Callable[[A], R]:
    """A pure function of one object, whose result is kept inside steady()."""

    @functools.wraps(function)
    def made(argument: A) -> R:
        kept = _kept.get()
        if kept is None:
            return function(argument)
        key = (function, id(argument))
        if key not in kept:
            kept[key] = (argument, function(argument))  # held, so that its id stays its own
        result: R = kept[key][1]
        return result

    return made
