"""Coroutines on a clock that jumps to the next timer: what takes minutes is over at once, and
how busy the machine is does not show."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
TICK_S = 1e-6


class Clock(selectors.DefaultSelector):
    """Instead of waiting for a timer, it is that time; what has no timer is waited for."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Time passes only where nothing else is there to be done."""
        if timeout is None:
            return super().select()
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0.0)
        return ready

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

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """A timer of less than a float can tell apart would be over before any time has passed."""
        return super().call_at(max(when, self.time() + TICK_S), callback, *args, context=context)


def at_once(work: Callable[[Clock], Coroutine[Any, Any, T]]) -> T:
    """What `work(clock)` returns, its sleeping done in no time."""
    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(work(clock))
