"""A row of the matrix, and what is measured when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

NOTICE_S = 2.0
CLEAN_S = 12.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one run of a row showed. Seconds are None where there is nothing to notice or clean."""

    said: str
    """What the run said of it: outcome's cause, or its refusal."""
    status: str
    notice_s: float | None
    clean_s: float | None
    survivors: list[str] = field(default_factory=list)
    points_kept: int = 0
    points_before: int = 0
    """Points written before the fault: none of them may be lost."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault at one moment. `strike` makes a run in a folder, strikes, and looks."""

    name: str
    fault: str
    moment: str
    strike: Callable[[Path], Seen]
    says: tuple[str, ...]
    """Words that what was said must have."""
    status: str = "failed"
    """completed | failed | cancelled | timed_out | refused | lost."""
    notice_limit_s: float = NOTICE_S
    """2 s for what ends, the phase's budget for what hangs."""
    quick: bool = False
    """Whether it runs in the ordinary tests too."""

    def problems(self, seen: Seen) -> list[str]:
        """Every promise that this run did not keep; empty is good."""
        return self.failings(seen) + self.delays(seen)

    def failings(self, seen: Seen) -> list[str]:
        """Promises not kept, but for those of time: a machine with other work cannot tell them."""
        found = [
            f"did not say {words!r}: {seen.said}" for words in self.says if words not in seen.said
        ]
        if seen.status != self.status:
            found.append(f"status {seen.status}, not {self.status}: {seen.said}")
        if seen.survivors:
            found.append(f"survivors: {seen.survivors}")
        if seen.points_kept < seen.points_before:
            found.append(f"{seen.points_before} points before, {seen.points_kept} kept")
        return found

    def delays(self, seen: Seen) -> list[str]:
        """Promises of time that this run did not keep."""
        found = []
        if seen.notice_s is not None and seen.notice_s > self.notice_limit_s:
            found.append(f"noticed after {seen.notice_s:.1f} s, limit {self.notice_limit_s:.1f}")
        if seen.clean_s is not None and seen.clean_s > CLEAN_S:
            found.append(f"cleaned after {seen.clean_s:.1f} s, limit {CLEAN_S}")
        return found
