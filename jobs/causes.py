"""Likely causes that need no knowledge of the engine: signals, Slurm's and the system's words."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence

from jobs.engines.dialect import Cause

CAUSES: tuple[Cause, ...] = tuple(
    Cause(re.compile(words, re.IGNORECASE), meaning)
    for words, meaning in (
        (
            r"Unable to satisfy cpu bind request",
            "SLURM_* variables of another job or step were inherited",
        ),
        (
            r"cpus_per_task set by two different environment variables",
            "SLURM_CPUS_PER_TASK and SLURM_TRES_PER_TASK differ: unset both, pass --cpus-per-task",
        ),
        (r"oom.kill|Out of memory: Killed|Detected \d+ oom", "the node ran out of memory"),
        (r"Address already in use|EADDRINUSE", "another process holds one of the run's ports"),
        (
            r"Cannot assign requested address",
            "a process binds an address of another node: addresses must be each node's own",
        ),
        (r"No space left on device", "a disk is full"),
        (r"ModuleNotFoundError: ", "the step's Python environment is incomplete"),
        (r"Node failure|DUE TO NODE FAIL|Lost communication", "a node went down"),
        (r"Permission denied", "a file or device is not accessible to this user"),
    )
)


def exit_text(code: int) -> str:
    """An exit code for people: rc 1, SIGKILL (-9), 137 (SIGKILL)."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        name = signal.Signals(number).name if number else ""
    except ValueError:
        name = ""
    if not name:
        return f"rc {code}"
    return name if code < 0 else f"rc {code} ({name})"


def likely_cause(code: int | None, lines: Sequence[str], more: Iterable[Cause] = ()) -> str:
    """What most probably happened, from the log's last lines and the exit code; may be empty."""
    for cause in (*more, *CAUSES):
        if any(cause.words.search(line) for line in lines):
            return cause.meaning
    if code in (-9, 137):
        return "killed (SIGKILL): look for out-of-memory on the node, or somebody's scancel"
    if code in (-11, 139, -6, 134):
        return "the process crashed: its log's last lines and a core file may tell"
    if code == 0:
        return "it ended by itself although it should serve until the end of the run"
    return ""
