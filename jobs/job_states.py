"""Slurm's words for a job's state and its id columns, as squeue and sacct print them.

Words: `man squeue` JOB STATE CODES and `man sacct` JOB STATE CODES, Slurm 22.05 to 24.11,
and the flag EXPEDITING of 25.11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WAITING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "EXPEDITING"),
)
RUNNING = (
    *("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED", "RESIZING"),
    *("UPDATE_DB", "POWER_UP_NODE", "LAUNCH_FAILED", "RECONFIG_FAIL"),
)
ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"),
    *("DEADLINE", "PREEMPTED", "REVOKED"),
)

PHASES = {
    **dict.fromkeys(WAITING, "waiting"),
    **dict.fromkeys(RUNNING, "running"),
    **dict.fromkeys(ENDED, "ended"),
}
SHORT = {
    **{"PD": "PENDING", "CF": "CONFIGURING", "RQ": "REQUEUED", "RF": "REQUEUE_FED"},
    **{"RH": "REQUEUE_HOLD", "SE": "SPECIAL_EXIT", "RD": "RESV_DEL_HOLD", "R": "RUNNING"},
    **{"CG": "COMPLETING", "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED"},
    **{"S": "SUSPENDED", "RS": "RESIZING", "CD": "COMPLETED", "F": "FAILED", "CA": "CANCELLED"},
    **{"TO": "TIMEOUT", "OOM": "OUT_OF_MEMORY", "NF": "NODE_FAIL", "BF": "BOOT_FAIL"},
    **{"DL": "DEADLINE", "PR": "PREEMPTED", "RV": "REVOKED", "UPD": "UPDATE_DB"},
}

REMARKS = frozenset({"LAUNCH_FAILED", "RECONFIG_FAIL"})
"""Flags that say why, not where a job stands; they count only where they stand alone."""

MAY_RETURN = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"})
"""Ends after which Slurm may start the same job again (requeue)."""

CUT_LEAST = 4
"""Shortest beginning that still names a state; shorter ones are ambiguous (RE+, CO+)."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job's state. `phase` is waiting, running, ended or unknown; `ok` is None until it ended."""

    word: str
    phase: str
    ok: bool | None = None
    by: str | None = None
    """Who cancelled it: sacct's user id."""

    @property
    def warning(self) -> str | None:
        """What to tell people about a word this program does not know."""
        if self.phase != "unknown":
            return None
        return f"Slurm says {self.word or 'nothing'!r} of a job's state: no word known here"


def parse_state(text: str) -> JobState:
    """The state in a column of squeue or sacct; never an exception.

    "CANCELLED by 1000", codes ("PD"), words cut by a narrow column ("OUT_OF_ME+") and flags
    ("PENDING,REQUEUED", "COMPLETING|NODE_FAIL") are read; any other word has phase "unknown". A
    flag that is not known leaves a job waiting or running, but makes no end believed.
    """
    first, _, rest = text.strip().partition(" ")
    words = [_full(word) for word in re.split(r"[,|]", first.upper()) if word]
    known = [word for word in words if word in PHASES]
    known = [word for word in known if word not in REMARKS] or known
    # A requeued job keeps the reason of its requeue as a flag; it waits all the same.
    word = next((w for phase in ("waiting", "running") for w in known if PHASES[w] == phase), "")
    if not known or (not word and any(it not in PHASES for it in words)):
        return JobState(first[:40], "unknown")
    word = word or known[0]
    by = re.fullmatch(r"by (\S*[^\s+])", rest.strip())  # An id that a "+" cut off is another's.
    phase = PHASES[word]
    ok = word == "COMPLETED" if phase == "ended" else None
    return JobState(word, phase, ok, by[1] if by else None)


def _full(word: str) -> str:
    """A code or a cut word as the whole word, where only one word fits."""
    if word.endswith("+") and len(word) > CUT_LEAST:
        fits = [whole for whole in PHASES if whole.startswith(word[:-1])]
        return fits[0] if len(fits) == 1 else word
    return SHORT.get(word, word)


JOB_ID = re.compile(
    r"(?P<job>\d+)(?:_(?:(?P<task>\d+)|\[(?P<tasks>[^\]]*)\]))?(?:\+\d+)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class JobIdColumn:
    """A JobID column: the job, whether it is one of its steps, and how many tasks it stands for.

    `job` is None and `tasks` 0 where the column was cut off: ask again with --parsable2.
    """

    job: str | None
    tasks: int
    step: str | None = None


def parse_job_id(text: str) -> JobIdColumn:
    """`123`, `123_4`, `123_[3,5-7]`, `123_[0-7:2%500]`, `123.batch`, `123+1`, or a cut one."""
    whole, _, step = text.strip().partition(".")
    match = JOB_ID.fullmatch(whole)
    if not match:
        return JobIdColumn(None, 0)
    if match["tasks"] is None:
        return JobIdColumn(match["job"], 1, step or None)
    count = _tasks(match["tasks"])
    return JobIdColumn(match["job"] if count else None, count, step or None)


def _tasks(text: str) -> int:
    """How many array tasks `3,5-7`, `0-7:2` or `1-100%5` are; 0 where it is cut or broken."""
    found: set[int] = set()
    for item in text.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", item, re.ASCII)
        if not match:
            return 0
        first, last = int(match[1]), int(match[2] or match[1])
        stride = int(match[3] or 1)
        if stride == 0 or last < first or last - first > 10_000_000:
            return 0
        found.update(range(first, last + 1, stride))
    return len(found)
