"""Finding processes by looking at /proc (Linux): who belongs to a step, and who still lives."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK_VARIABLE = "LAUNCHER_RUN_MARK"
"""In every step's environment: finds children that left their step's process group and session."""


@dataclass(frozen=True, slots=True)
class Process:
    """One living process; `started` tells it from a later one with the same pid."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    state: str = ""


def living() -> dict[int, Process]:
    """All processes that are not zombies."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (process := _read(entry)):
            found[process.pid] = process
    return found


def _read(entry: Path) -> Process | None:
    try:
        text = (entry / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may itself hold blanks and parentheses.
    state, *fields = text.rpartition(")")[2].split()
    if state in ("Z", "X"):
        return None
    parent, group, session = (int(field) for field in fields[:3])
    return Process(int(entry.name), parent, group, session, int(fields[18]), state)


def start_ticks(pid: int) -> int | None:
    """When a living process began, in clock ticks since boot: its pid may be another's later."""
    process = _read(Path("/proc") / str(pid))
    return process.started if process else None


def boot_id() -> str:
    """This boot of this machine; start_ticks count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def members(
    leaders: Iterable[int], mark: str, unmarked: set[tuple[int, int]] | None = None
) -> list[Process]:
    """Living processes of the steps led by `leaders`: their groups, sessions and descendants,
    and whatever carries the run's mark.

    `unmarked` remembers, for later calls, whose environment was read in vain: that is most of
    the time this takes on a node with many processes.
    """
    every = living()
    wanted = set(leaders)
    children: dict[int, list[Process]] = defaultdict(list)
    for process in every.values():
        children[process.parent].append(process)
    found = {
        p.pid: p
        for p in every.values()
        if p.group in wanted or p.session in wanted or _has_mark(p, mark, unmarked)
    }
    queue = [*found.values()]
    while queue:
        for child in children[queue.pop().pid]:
            if child.pid not in found:
                found[child.pid] = child
                queue.append(child)
    found.pop(os.getpid(), None)
    return list(found.values())


def has_group(leader: int) -> bool:
    """Whether anybody is left in the group or session that `leader` led."""
    return any(leader in (process.group, process.session) for process in living().values())


def stopped(leader: int) -> int | None:
    """A process in `leader`'s group that was halted by a signal; None when there is none."""
    for process in living().values():
        if process.group == leader and process.state in ("T", "t"):
            return process.pid
    return None


def _has_mark(process: Process, mark: str, unmarked: set[tuple[int, int]] | None) -> bool:
    if unmarked is not None and (process.pid, process.started) in unmarked:
        return False
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    try:
        found = wanted in (Path("/proc") / str(process.pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        found = False
    if unmarked is not None and not found:
        unmarked.add((process.pid, process.started))
    return found


def living_marks() -> list[str]:
    """Marks of all runs that have a living process of this user here."""
    start = f"{MARK_VARIABLE}=".encode()
    found = set()
    for pid in living():
        try:
            words = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {
            w.removeprefix(start).decode(errors="replace") for w in words if w.startswith(start)
        }
    return sorted(found)


def still(processes: Iterable[Process]) -> list[Process]:
    """Those that live on (same pid and same start)."""
    alive = []
    for process in processes:
        now = _read(Path("/proc") / str(process.pid))
        if now is not None and now.started == process.started:
            alive.append(process)
    return alive


def signal_groups(leaders: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to every process group."""
    for leader in leaders:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)


def signal_each(processes: Iterable[Process], number: signal.Signals) -> None:
    """Sends a signal to every single process that still is the one seen."""
    for process in still(processes):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
