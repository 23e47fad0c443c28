"""When a log line was written, from the time stamps that engines, routers and clients print.

Stamps without a zone are the node's local time and are taken as this machine's; stamps without a
year (vLLM, glog) get the latest one that does not put them after the log's last change.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass

DAY_S = 86400.0
HEAD = 160
"""Characters of a line in which a stamp is looked for; later ones belong to its text."""

BEFORE = r"^[\s\[(]*(?:\([^()]{1,60}\)\s*)?(?:(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\s+)?[\[(]?"
"""What may stand before a stamp: a process in parentheses, a level, an opening bracket."""

ISO = re.compile(
    BEFORE + r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
"""Python's logging, Rust's tracing, ISO 8601; submitit puts its name in front."""
SUBMITIT = re.compile(r"^submitit [A-Z]+ \((?P<rest>\d{4}-\d\d-\d\d .*)")

MONTH_DAY = re.compile(
    BEFORE + r"(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
)
"""vLLM: `INFO 11-29 20:31:04 [file.py:12]`."""

GLOG = re.compile(
    r"^[IWEF](?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<part>\d{6})"
)
"""glog, as NIXL and NCCL plugins print it: `I1129 20:31:04.123456`."""

EPOCH = re.compile(r"^\[(?P<seconds>\d{9,11}\.\d{3,9})\]")
"""UCX: `[1764448264.123456] [host:pid:0]`."""


@dataclass(slots=True)
class Stamps:
    """Reads the stamps of one log; `near` is when it was last written (s since 1970)."""

    near: float
    _last: Callable[[str, float], float | None] | None = None

    def read(self, line: str) -> float | None:
        """Seconds since 1970; None for a line without a stamp."""
        head = line[:HEAD]
        for reader in (self._last, *READERS) if self._last else READERS:
            if (found := reader(head, self.near)) is not None:
                self._last, self.near = reader, max(self.near, found)
                return found
        return None


def _iso(head: str, _near: float) -> float | None:
    if match := SUBMITIT.match(head):
        head = match["rest"]
    match = ISO.match(head)
    if not match:
        return None
    zone = (match["zone"] or "").replace("Z", "+00:00")
    return _seconds(f"{match['date']}T{match['time']}{zone}", match["part"])


def _month_day(head: str, near: float) -> float | None:
    match = MONTH_DAY.match(head)
    return _without_year(match, near) if match else None


def _glog(head: str, near: float) -> float | None:
    match = GLOG.match(head)
    if not match:
        return None
    if match["year"]:
        day = f"{match['year']}-{match['month']}-{match['day']}"
        return _seconds(f"{day}T{match['time']}", match["part"])
    return _without_year(match, near)


def _epoch(head: str, _near: float) -> float | None:
    match = EPOCH.match(head)
    return float(match["seconds"]) if match else None


READERS = (_month_day, _iso, _glog, _epoch)


def _without_year(match: re.Match[str], near: float) -> float | None:
    """The latest year that puts it no more than a day (zones, clocks) after `near`."""
    year = datetime.datetime.fromtimestamp(near).year
    found = [
        _seconds(f"{y}-{match['month']}-{match['day']}T{match['time']}", match["part"])
        for y in (year - 1, year, year + 1)
    ]
    known = [seconds for seconds in found if seconds is not None]
    return max((at for at in known if at <= near + DAY_S), default=None)


def _seconds(text: str, part: str | None) -> float | None:
    """Seconds since 1970; None where it is no date (13-45 99:00:00)."""
    try:
        whole = datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return whole + (float(f"0.{part}") if part else 0.0)
