"""How the arithmetic says that it lacks a number: it names the key and stops, it never guesses."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


class UnknownError(Exception):
    """A number that is needed and not known; the text says which, and where to set it."""


def known(value: Value | None, where: str) -> Value:
    """The value, or UnknownError naming the key that would hold it."""
    if value is None:
        raise UnknownError(f"{where} is not set")
    return value
