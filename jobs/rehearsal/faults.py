"""Faults asked for on the command line, so that a run's failure handling can be rehearsed."""

from __future__ import annotations

import re
from dataclasses import dataclass

ALLOWED = "exit:CODE@SECONDS, hang@SECONDS, kvfail, kvfail@N, badstate, badstate@N"


class FaultError(ValueError):
    """A --fail text that names no fault."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and when.

    `exit_at_s` and `hang_at_s` count from the start of the process; `kvfail_from` and
    `badstate_from` are the number of the first transfer that is spoilt (1 = all of them).
    """

    exit_code: int = 0
    exit_at_s: float | None = None
    hang_at_s: float | None = None
    kvfail_from: int | None = None
    badstate_from: int | None = None


def parse_fault(text: str | None) -> Faults:
    """The fault `text` asks for; FaultError lists what is allowed."""
    if not text:
        return Faults()
    if found := re.fullmatch(r"exit:(\d{1,3})@(\d+(?:\.\d+)?)", text):
        return Faults(exit_code=int(found[1]), exit_at_s=float(found[2]))
    if found := re.fullmatch(r"hang@(\d+(?:\.\d+)?)", text):
        return Faults(hang_at_s=float(found[1]))
    if found := re.fullmatch(r"kvfail(?:@(\d+))?", text):
        return Faults(kvfail_from=int(found[1] or 1))
    if found := re.fullmatch(r"badstate(?:@(\d+))?", text):
        return Faults(badstate_from=int(found[1] or 1))
    raise FaultError(f"--fail {text!r}: allowed are {ALLOWED}")
