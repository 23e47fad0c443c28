"""Slurm's words for a node's state: base, flags joined with `+`, and one-letter marks.

Words and marks: `man sinfo` NODE STATE CODES and `man scontrol` (State=), Slurm 22.05 to 24.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_ISSUED",
    "^": "REBOOT_REQUESTED",
    "-": "PLANNED",
}
BASES = {
    **{"IDLE": "free", "MIXED": "busy", "ALLOCATED": "busy", "COMPLETING": "busy"},
    **{"PLANNED": "not now", "RESERVED": "unusable", "BLOCKED": "not now"},
    **{"POWERING_UP": "not now", "POWERED_DOWN": "not now", "POWERING_DOWN": "not now"},
    **{"POWER_UP": "not now", "POWER_DOWN": "not now", "FUTURE": "unusable"},
    **{"DOWN": "unusable", "DRAINED": "unusable", "DRAINING": "unusable", "DRAIN": "unusable"},
    **{"FAIL": "unusable", "FAILING": "unusable", "MAINT": "unusable", "MAINTENANCE": "unusable"},
    **{"REBOOT": "unusable", "REBOOT_ISSUED": "unusable", "REBOOT_REQUESTED": "unusable"},
    **{"ERROR": "unusable", "INVAL": "unusable", "UNKNOWN": "unusable", "PERFCTRS": "busy"},
    **{"ALLOC": "busy", "COMP": "busy", "MIX": "busy", "RESV": "unusable", "PLND": "not now"},
    **{"DRNG": "unusable", "UNK": "unusable", "FAILG": "unusable", "FUTR": "unusable"},
}
HARMLESS = frozenset({"CLOUD", "DYNAMIC", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL"})
FLAGS = {
    **{"PLANNED": "not now", "COMPLETING": "busy", "PERFCTRS": "busy"},
    **{"POWERED_DOWN": "not now", "POWERING_UP": "not now", "POWER_UP": "not now"},
    **{"POWERING_DOWN": "not now", "POWER_DOWN": "not now", "BLOCKED": "not now"},
    **{"POWER_DRAIN": "unusable"},
}
ORDER = ("free", "busy", "not now", "unusable")


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node's base state and flags; `use` is free, busy, not now or unusable.

    "not now": it will be of use without anybody's doing (planned for a job, asleep, waking).
    """

    base: str
    flags: tuple[str, ...]
    use: str


def parse_node_state(text: str) -> NodeState:
    """`idle`, `mixed-`, `down*`, `IDLE+DRAIN`, `DOWN*+DRAIN+NOT_RESPONDING`.

    Free is only a node that is idle with nothing against it: any flag or base that is not known
    makes it unusable.
    """
    words: list[str] = []
    for word in re.split(r"[+]", text.strip().upper()):
        bare = word.rstrip("".join(MARKS))
        words += [bare, *(MARKS[mark] for mark in word[len(bare) :])]
    base, *flags = words
    uses = [BASES.get(base, "unusable")]
    uses += [FLAGS.get(flag, "unusable") for flag in flags if flag not in HARMLESS]
    if uses[0] == "busy" and set(flags) <= {"PLANNED", "COMPLETING", *HARMLESS}:
        uses = ["busy"]
    return NodeState(base, tuple(flags), max(uses, key=ORDER.index))
