"""Coroutines on a clock that jumps to the next timer: what takes minutes is over at once, and
how busy the machine is does not show."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Clock(selectors.DefaultSelector):
    """Instead of waiting for a timer, it is that time; what has no timer is waited for."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing new is looked for while only time has to pass."""
        if timeout is None:
            return super().select()
        self.now += max(timeout, 0.0)
        return super().select(0)

    def monotonic(self) -> float:
        """Seconds since the coroutine began."""
        return self.now

    time = monotonic


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop by such a clock. For coroutines without input and output of their own."""

    def __init__(self, clock: Clock) -> None:
        self._clock_of_test = clock
        super().__init__(clock)

    def time(self) -> float:
        """The loop's own idea of now."""
        return self._clock_of_test.now


def at_once(work: Callable[[Clock], Coroutine[Any, Any, T]]) -> T:
    """What `work(clock)` returns, its sleeping done in no time."""
    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(work(clock))
