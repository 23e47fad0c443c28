"""How busy a client's process was itself: a late client measures its own delay as the server's."""

from __future__ import annotations

import asyncio
import time
from array import array

LAG_PERIOD_S = 0.01
SHARE_PERIOD_S = 1.0


class OwnLoad:
    """Samples one process' event loop from `begin` to `end`.

    Lag: how late a timer of 10 ms fired. Share: CPU seconds of the process per second, at most 1
    for one thread; also in the busiest second.
    """

    def __init__(self) -> None:
        self.lags: array[float] = array("f")
        self.peak_share = 0.0
        self.share = 0.0
        self.cpu_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """From now on."""
        self._loop = asyncio.get_running_loop()
        self._begun = self._mark = self._due = time.monotonic()
        self._cpu = self._cpu_mark = time.process_time()
        self._tick()

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._begun > 0:
            self.lags.append(max(0.0, now - self._due))
        if now - self._mark >= SHARE_PERIOD_S:
            self._window(now)
        self._due = now + LAG_PERIOD_S
        self._timer = self._loop.call_later(LAG_PERIOD_S, self._tick)

    def _window(self, now: float) -> None:
        cpu = time.process_time()
        self.peak_share = max(self.peak_share, (cpu - self._cpu_mark) / (now - self._mark))
        self._mark, self._cpu_mark = now, cpu

    def end(self) -> None:
        """Until now; a loop that is late at this moment counts too."""
        now = time.monotonic()
        self.lags.append(max(0.0, now - self._due))
        if self._timer is not None:
            self._timer.cancel()
        wall = now - self._begun
        self.cpu_s = time.process_time() - self._cpu
        self.share = self.cpu_s / wall if wall > 0 else 0.0
        self.peak_share = max(self.peak_share, self.share)
