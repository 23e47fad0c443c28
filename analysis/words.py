"""The words a row can be judged with, and which of them may be counted on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """The word in the row, from the best to the worst."""

    VALID = "VALID"
    UNPROVEN = "UNPROVEN"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"
    REHEARSAL = "REHEARSAL"


MEANINGS = {
    Verdict.VALID: "nothing objected, and the accuracy gate passed",
    Verdict.UNPROVEN: "nothing objected, but a proof is missing (accuracy, state canary, counters)",
    Verdict.SUSPECT: "the requests did what was asked, but something beside the servers' steady "
    "speed is in the figures",
    Verdict.INVALID: "the numbers do not mean what the columns say, or the answers are wrong",
    Verdict.REHEARSAL: "no engine ran: invalid whatever the numbers",
}


def worst(words: Iterable[str]) -> str:
    """The last of them in the order of Verdict."""
    order = list(Verdict)
    return max((Verdict(word) for word in words), key=order.index).value


USABLE = frozenset({Verdict.VALID, Verdict.UNPROVEN, Verdict.SUSPECT})
"""May enter a plot, a best-of and a comparison; the word stands beside the figure."""
