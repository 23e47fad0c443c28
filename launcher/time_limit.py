"""Slurm's ways to write a time limit, and what a limit must leave room for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.schema import LaunchConfig

DAYS = re.compile(r"(\d+)-(\d{1,2})(?::([0-5]?\d))?(?::([0-5]?\d))?")
CLOCK = re.compile(r"(?:(\d{1,3}):)?(\d{1,4}):([0-5]\d)")
FORMS = "[D-]HH:MM:SS, D-HH, D-HH:MM or MM:SS"
DAY_S = 86400


def seconds_of(text: str) -> int | None:
    """Seconds of a limit as sbatch(1) reads it; None for what is no limit, and for bare numbers.

    A bare number is minutes to Slurm and, as 1:30:00 without quotes, 5400 to YAML: refused.
    """
    if match := DAYS.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * DAY_S + hours * 3600 + minutes * 60 + seconds if hours < 24 else None
    if match := CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds if not hours or minutes < 60 else None
    return None


def clock(seconds: float) -> str:
    """4:05:00 of 14700."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def time_limit(config: LaunchConfig) -> Iterator[str]:
    """The job's limit can be read, is not nothing, and is longer than the time to end in."""
    cluster = config.cluster
    limit = seconds_of(cluster.time)
    if limit is None:
        hint = _bare_number(cluster.time)
        yield f'cluster.time={cluster.time!r}: allowed: {FORMS} in quotes, as in "04:00:00"{hint}'
    elif limit == 0:
        yield f"cluster.time={cluster.time!r}: no time at all; allowed: more than cluster.grace_s"
    elif cluster.executor == "slurm" and cluster.grace_s >= limit:
        yield (
            f"cluster.grace_s={cluster.grace_s}: the driver would be told to end before it began: "
            f"cluster.time={cluster.time} is {limit} s; allowed: less than that"
        )


def _bare_number(text: str) -> str:
    """Both readings of a number without colons, as the end of an error."""
    if not (text.isascii() and text.isdigit()) or int(text) >= DAY_S * 30:
        return ""
    minutes, sexagesimal = clock(int(text) * 60), clock(int(text))
    return (
        f"; the number {text} would be minutes to Slurm ({minutes}), and is what YAML makes of "
        f"{sexagesimal} without quotes"
    )


def grace_for_teardown(config: LaunchConfig) -> Iterator[str]:
    """The end signal comes early enough for the tear-down."""
    cluster = config.cluster
    if cluster.executor == "slurm" and cluster.budgets.teardown_s > cluster.grace_s:
        yield (
            f"cluster.grace_s={cluster.grace_s}: less than cluster.budgets.teardown_s="
            f"{cluster.budgets.teardown_s:g}, so that the limit may cut the records off; raise it"
        )
