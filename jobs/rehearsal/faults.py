"""Faults asked for on the command line, so that a run's failure handling can be rehearsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

ALLOWED = (
    "exit:CODE@SECONDS, hang@SECONDS, refuse@SECONDS, deaf, stuck, noside, freeze@REQUEST, "
    "http500@REQUEST, http500@FIRST-LAST, kvfail, kvfail@N, badstate, badstate@N, flood:MB, "
    "several with + between them, and ROLE/ before them for one role only"
)


class FaultError(ValueError):
    """A --fail text that names no fault."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and when. Times count from the start of the process, requests and
    transfers from 1.

    exit: ends at once. hang: no page answers any more. refuse: stops listening, lives on.
    deaf: ignores SIGTERM. stuck: loads weights for ever. noside: its side channel never listens.
    freeze: from this request on no token is made, while all pages answer. http500: these requests
    get that status. kvfail, badstate: from this transfer on they fail, or bring a wrong state.
    flood: writes so many MB a minute to its log.
    """

    exit_code: int = 0
    exit_at_s: float | None = None
    hang_at_s: float | None = None
    refuse_at_s: float | None = None
    deaf: bool = False
    stuck: bool = False
    no_side_channel: bool = False
    freeze_from: int | None = None
    http500: tuple[int, float] | None = None
    kvfail_from: int | None = None
    badstate_from: int | None = None
    flood_mb: float | None = None


Make = Callable[[re.Match[str]], Faults]
SECONDS = r"(\d+(?:\.\d+)?)"
KINDS: tuple[tuple[str, Make], ...] = (
    (
        rf"exit:(\d{{1,3}})@{SECONDS}",
        lambda found: Faults(exit_code=int(found[1]), exit_at_s=float(found[2])),
    ),
    (rf"hang@{SECONDS}", lambda found: Faults(hang_at_s=float(found[1]))),
    (rf"refuse@{SECONDS}", lambda found: Faults(refuse_at_s=float(found[1]))),
    (r"deaf", lambda _: Faults(deaf=True)),
    (r"stuck", lambda _: Faults(stuck=True)),
    (r"noside", lambda _: Faults(no_side_channel=True)),
    (r"freeze@(\d+)", lambda found: Faults(freeze_from=int(found[1]))),
    (r"http500@(\d+)", lambda found: Faults(http500=(int(found[1]), float("inf")))),
    (r"http500@(\d+)-(\d+)", lambda found: Faults(http500=(int(found[1]), int(found[2])))),
    (r"kvfail(?:@(\d+))?", lambda found: Faults(kvfail_from=int(found[1] or 1))),
    (r"badstate(?:@(\d+))?", lambda found: Faults(badstate_from=int(found[1] or 1))),
    (rf"flood:{SECONDS}", lambda found: Faults(flood_mb=float(found[1]))),
)


def parse_fault(text: str | None, role: str = "") -> Faults:
    """The faults `text` asks of a process of `role`; FaultError lists what is allowed."""
    faults = Faults()
    if not text:
        return faults
    wanted, slash, rest = text.partition("/")
    if slash and wanted not in ("prefill", "decode", "aggregated"):
        raise FaultError(f"--fail {text!r}: before / stands prefill, decode or aggregated")
    for word in (rest if slash else text).split("+"):
        found = _one(word, text)
        changed = {
            item.name: getattr(found, item.name)
            for item in fields(Faults)
            if getattr(found, item.name) != item.default
        }
        faults = replace(faults, **changed)
    return faults if not slash or wanted == role else Faults()


def _one(word: str, text: str) -> Faults:
    for pattern, make in KINDS:
        if found := re.fullmatch(pattern, word):
            return make(found)
    raise FaultError(f"--fail {text!r}: allowed are {ALLOWED}")
