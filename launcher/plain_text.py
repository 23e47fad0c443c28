"""Text from files and command lines, made harmless for the terminal that an error is shown on."""

from __future__ import annotations

import unicodedata

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, private, unassigned; line, paragraph breaks."""


def printable(text: str) -> str:
    """`text` with every character that moves a cursor or hides written as its escape.

    Line breaks stay: a message has several lines.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if char != "\n" and unicodedata.category(char) in UNPRINTABLE
        else char
        for char in text
    )


def counted(number: int, word: str) -> str:
    """1 job, 2 jobs."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
