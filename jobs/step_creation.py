"""Whether srun failed before its task began, because the controller was away: then it may be
started again, for nothing has happened yet.

srun itself waits and retries while the controller answers "busy" or "temporarily disabled"
(launch.c, Slurm 24.11); when the controller does not answer at all it gives up at once.
"""

from __future__ import annotations

import re
from pathlib import Path

from jobs.slurm_ask import OUT_OF_REACH

TAIL_BYTES = 64 * 1024
PATIENCE_S = 300.0
"""How long a step may fail to begin for the controller's sake, from its first failure on."""

LONGEST_PAUSE_S = 15.0

NOT_READY = (
    "Memory required by task is not available",
    "Requested nodes are busy",
    "Required node not available",
)
"""What a controller that has just come back says until the nodes have reported to it; it may also
be meant, so these are believed after NOT_READY_S (seen on Slurm 24.11: node state UNKNOWN)."""

NOT_READY_S = 20.0
NOT_BEGUN = re.compile(
    r"^srun: error: (Unable to (create step|confirm allocation) for job|Unable to allocate|"
    r"Unable to contact|slurm_)",
    re.MULTILINE,
)
BEGUN = re.compile(r"^(?!srun: )\S", re.MULTILINE)
"""Anything that is not srun's own: the task has written."""


def never_began(log: Path, offset: int, waited_s: float = 0.0) -> bool:
    """Whether all that stands in the log from `offset` on is srun's failure to reach Slurm, or,
    for a while, the refusal of a controller that does not know its nodes yet."""
    try:
        with log.open("rb") as stream:
            stream.seek(offset)
            text = stream.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    words = OUT_OF_REACH if waited_s > NOT_READY_S else (*OUT_OF_REACH, *NOT_READY)
    away = any(word in text for word in words)
    return away and bool(NOT_BEGUN.search(text)) and not BEGUN.search(text)
