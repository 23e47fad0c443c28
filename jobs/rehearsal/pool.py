"""Room that requests share: so much of it, given out first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Pool:
    """`capacity` units; whoever finds no room waits for its turn.

    One that wants more than there is gets in alone: it would wait for ever otherwise.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, units: int) -> None:
        """Returns once the units are held."""
        if not self._queue and self._fits(units):
            self.held += units
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, units)
        self._queue.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(units)
            else:
                with suppress(ValueError):
                    self._queue.remove(entry)
                self._serve()
            raise

    def give(self, units: int) -> None:
        """The units are free again."""
        self.held -= units
        self._serve()

    def _fits(self, units: int) -> bool:
        return self.held + units <= self.capacity or self.held == 0

    def _serve(self) -> None:
        while self._queue and self._fits(self._queue[0][1]):
            turn, units = self._queue.popleft()
            if not turn.done():
                self.held += units
                turn.set_result(None)
