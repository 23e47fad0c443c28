"""`python -m jobs.guard`: stops the steps when the driver itself was killed.

The driver holds the write end of this process's standard input. When that closes, whatever is
left of the steps is stopped; after an orderly tear-down nothing is left and this just ends.
Lines: `mark TEXT` (the run's mark), `+PID` (a step's leader), `-PID` (a step that is gone).
Standard library only.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable

from jobs.process_tree import members, signal_each, signal_groups

TERM_S = 5.0
"""From TERM to KILL. Shorter than the driver's own: nobody is left to wait for a tidy end."""


def follow(lines: Iterable[str]) -> tuple[set[int], str]:
    """The leaders that are left when the driver's end closes, and the run's mark."""
    leaders: set[int] = set()
    mark = ""
    for line in lines:
        word = line.strip()
        if word.startswith("mark "):
            mark = word.removeprefix("mark ")
        elif word.startswith("+"):
            leaders.add(int(word[1:]))
        elif word.startswith("-"):
            leaders.discard(int(word[1:]))
    return leaders, mark


def stop_left_overs(leaders: set[int], mark: str) -> None:
    """TERM, then KILL, until nothing is left."""
    if not members(leaders, mark):
        return
    signal_groups(leaders, signal.SIGTERM)
    signal_each(members(leaders, mark), signal.SIGTERM)
    until = time.monotonic() + TERM_S
    while time.monotonic() < until:
        if not members(leaders, mark):
            return
        time.sleep(0.1)
    for _ in range(50):
        left = members(leaders, mark)
        if not left:
            return
        signal_each(left, signal.SIGKILL)
        time.sleep(0.1)


def main() -> int:
    """Waits for the end of the driver; ignores signals meant for it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    leaders, mark = follow(sys.stdin)
    stop_left_overs(leaders, mark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
