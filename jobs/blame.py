"""The root cause of a failure: the earliest line among all logs that can end a run.

The loudest process is often a victim: ranks complain of a lost peer, the router of a lost worker.
Lines that only a warning or less says are no cause of a death; a rule says which lines merely
follow. Where no line tells, the exit code does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jobs.causes import CAUSES, exit_cause
from jobs.engines.dialect import FATAL, FOLLOWS, REQUEST, Cause
from jobs.logs import ANSI

LOOK_BYTES = 128 * 1024
QUOTE = 300
WINDOW_S = 1800.0
"""An error so long before the end was survived."""

QUIET_LEVEL = re.compile(r"^(?:\([^)]*\) )?(?:\S+ )?(?:INFO|DEBUG)\b|NCCL INFO|UCX +(?:INFO|WARN)")
WARNING_LEVEL = re.compile(r"(?<!NCCL )\bWARN(?:ING)?\b|UserWarning|FutureWarning")
BENIGN = re.compile(
    r"resource_tracker|leaked (?:semaphore|shared_memory)|destroy_process_group|usage_stats"
    r"|Exception ignored in|RuntimeError: Event loop is closed"
    r"|No module named 'vllm\._version'|Failed to read commit hash"
    r"|not installed|couldn't load driver|retrying|Will retry|falling back|KeyboardInterrupt"
    r"|nvml.{0,40}not (?:found|available)|No module named '(?:triton|flash_attn|xformers)",
    re.IGNORECASE,
)
"""What healthy runs say too, in the words of real errors."""

RAISED = re.compile(r"^(?:\([^)]*\) )?(?:ERROR .*?\] )?((?:\w+\.)*\w*(?:Error|Exception)): ")
STAMP = re.compile(
    r"(?:(\d{4})-)?(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?|^\[(1\d{9}\.\d+)\]"
)
SHARDS = re.compile(r"(\d+)/(\d+) \[(?:(\d+):)?(\d+):(\d+)<")
LEVELS = {FATAL: 0, REQUEST: 1, FOLLOWS: 2}


@dataclass(frozen=True, slots=True)
class Log:
    """One process's log, from where this run began in it."""

    step: str
    path: Path
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that may explain a failure; `at` in seconds since 1970, or the log's last write."""

    step: str
    line: str
    at: float
    cause: Cause | None

    @property
    def kind(self) -> str:
        """The rule's kind; an exception without a rule is taken for fatal."""
        return self.cause.kind if self.cause else FATAL


def findings(log: Log, rules: Sequence[Cause], year: int) -> list[Finding]:
    """Telling lines of one log in their order: of its beginning and its end, 128 KiB each."""
    found: list[Finding] = []
    at = 0.0
    written, lines = _lines(log)
    for line in lines:
        at = _time_of(line, year) or at
        if BENIGN.search(line) or QUIET_LEVEL.search(line):
            continue
        cause = next((it for it in rules if it.words.search(line)), None)
        if cause is not None and cause.kind == FATAL and WARNING_LEVEL.search(line):
            continue
        if cause is not None or RAISED.match(line):
            found.append(Finding(log.step, line.strip()[:QUOTE], at or written, cause))
    return found


def root(every: Iterable[Finding], first_dead: str | None = None) -> Finding | None:
    """The earliest finding of the gravest kind; known causes before bare exceptions, and of
    equal times the process that died first."""
    found = list(every)
    if not found:
        return None
    latest = max(it.at for it in found)
    recent = [it for it in found if latest - it.at <= WINDOW_S]

    def order(it: Finding) -> tuple[int, bool, float, bool]:
        return LEVELS[it.kind], it.cause is None, it.at, it.step != first_dead

    return min(recent, key=order)


def explain(
    logs: Iterable[Log], rules: Sequence[Cause], dead: tuple[str, int] | None = None
) -> str:
    """Likely cause, the line that shows it, what to try; empty when nothing tells.

    `dead` is the process that ended first, with its exit code.
    """
    year = datetime.now().year
    every = [it for log in logs for it in findings(log, (*rules, *CAUSES), year)]
    if dead:
        # What others say of lost peers and failed requests is its effect.
        every = [it for it in every if it.kind == FATAL or it.step == dead[0]]
    found = root(every, dead[0] if dead else None)
    told = exit_cause(dead[1]) if dead else None
    # That it ended with 0 says nothing of why; a server whose engine process is gone does so.
    mute = dead is not None and dead[1] == 0 and found is not None and found.step == dead[0]
    if found and (found.kind == FATAL or told is None or mute):
        if found.cause is None:
            return f"likely cause: {found.step} raised: {found.line!r}"
        more = (
            _load_estimate(every_line(logs, found.step)) if "start_s" in found.cause.advice else ""
        )
        return (
            f"likely cause: {found.cause.meaning}{more} ({found.step}: {found.line!r}); "
            f"what to try: {found.cause.advice}"
        )
    return f"likely cause: {told[0]}; what to try: {told[1]}" if told else ""


def every_line(logs: Iterable[Log], step: str) -> list[str]:
    """All lines looked at of one process."""
    return [line for log in logs if log.step == step for line in _lines(log)[1]]


def _load_estimate(lines: Sequence[str]) -> str:
    """How long the weights would have taken, from the last progress bar."""
    bars = [bar for line in lines if (bar := SHARDS.search(line))]
    if not bars or not int(bars[-1][1]):
        return ""
    done, every, hours, minutes, seconds = bars[-1].groups()
    spent = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
    whole = spent * int(every) / int(done)
    return f": {done} of {every} shards after {spent} s, so all take about {whole:.0f} s"


def _lines(log: Log) -> tuple[float, list[str]]:
    """When the log was last written, and its lines; a log that was cut also has its beginning."""
    pieces: list[bytes] = []
    written = 0.0
    for path in (log.path.with_name(f"{log.path.stem}.first.log"), log.path):
        try:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                begin = log.offset if path == log.path and log.offset <= size else 0
                stream.seek(begin)
                pieces.append(stream.read(LOOK_BYTES))
                if size - begin > LOOK_BYTES:
                    stream.seek(max(begin + LOOK_BYTES, size - LOOK_BYTES))
                    pieces.append(stream.read())
            written = path.stat().st_mtime
        except OSError:
            continue
    text = ANSI.sub("", b"\n".join(pieces).decode("utf-8", "replace"))
    return written, [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def _time_of(line: str, year: int) -> float | None:
    found = STAMP.search(line[:80])
    if not found:
        return None
    if found[8]:
        return float(found[8])
    month, day, hour, minute, second = (int(found[place]) for place in (2, 3, 4, 5, 6))
    try:
        moment = datetime(int(found[1] or year), month, day, hour, minute, second).timestamp()
    except ValueError:
        return None
    return moment + float(f"0.{found[7] or 0}")
