"""Processes known by pid and start time, so that only what the cluster started is ever stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Started:
    """One process; `ticks` is its start time, which tells it from a later user of the pid."""

    name: str
    pid: int
    ticks: int

    def is_alive(self) -> bool:
        """A zombie is dead: the machine's first process may not reap."""
        return stat(self.pid) == (False, self.ticks)


def stat(pid: int) -> tuple[bool, int] | None:
    """(is a zombie, start time in clock ticks), or None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0] in "ZX", int(fields[19])


def observe(name: str, pid: int) -> Started | None:
    """The process that has `pid` now."""
    seen = stat(pid)
    return None if seen is None or seen[0] else Started(name, pid, seen[1])


def spawn(name: str, argv: Sequence[str], env: Mapping[str, str], output: Path) -> Started:
    """Start a daemon in the foreground, in its own session, its output appended to a file."""
    with output.open("ab") as sink:
        child = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
    _children.append(child)
    started = observe(name, child.pid)
    if started is None:
        tail = output.read_text(errors="replace")[-1500:]
        raise ClusterError(f"{name} ended at once with {child.poll()}; {output}:\n{tail}")
    return started


def stop(processes: Iterable[Started], grace_s: float) -> None:
    """TERM, then KILL after `grace_s` to those left; returns when all are gone."""
    left = [p for p in processes if p.is_alive()]
    _signal(left, signal.SIGTERM)
    if not wait_until(lambda: not any(p.is_alive() for p in left), grace_s):
        kill(left)
    reap()


def kill(processes: Sequence[Started]) -> None:
    """KILL, and look until they are gone; raises naming those that are not."""
    _signal(processes, signal.SIGKILL)
    if not wait_until(lambda: not any(p.is_alive() for p in processes), 10):
        alive = ", ".join(f"{p.name} (pid {p.pid})" for p in processes if p.is_alive())
        raise ClusterError(f"still alive 10 s after SIGKILL: {alive}")


def _signal(processes: Iterable[Started], number: signal.Signals) -> None:
    for process in processes:
        if process.is_alive():
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue


def reap() -> None:
    """Collect the exit codes of our own ended children."""
    _children[:] = [child for child in _children if child.poll() is None]


def wait_until(condition: Callable[[], bool], seconds: float, every_s: float = 0.05) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True


def all_pids() -> Iterator[int]:
    """Every process on the machine but this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield int(entry.name)


def environment(pid: int) -> dict[str, str]:
    """The process's environment at its start; empty when it is gone or not ours to read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def parent(pid: int) -> int:
    """The parent's pid; 0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
