"""One answer of one check: what was found, what was wanted, and whether that will do."""

from __future__ import annotations

from typing import Any

OK = "ok"
FAILED = "failed"
WARNED = "warned"
SKIPPED = "skipped"

Found = dict[str, Any]


def passed(check: str, value: object, wanted: object = "") -> Found:
    """The check found what it wanted."""
    return _found(check, OK, value, wanted)


def failed(check: str, value: object, wanted: object) -> Found:
    """The run would fail here, or measure something else than meant."""
    return _found(check, FAILED, value, wanted)


def warned(check: str, value: object, wanted: object) -> Found:
    """A reader of the results should know."""
    return _found(check, WARNED, value, wanted)


def skipped(check: str, why: object) -> Found:
    """Not looked at, and why."""
    return _found(check, SKIPPED, why, "")


def _found(check: str, state: str, value: object, wanted: object) -> Found:
    return {"check": check, "state": state, "value": str(value), "wanted": str(wanted)}


def reason(error: OSError) -> str:
    """An operating system error in its own words."""
    return error.strerror or str(error)
