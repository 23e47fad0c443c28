"""Text that other programs wrote, made harmless for a terminal and for the line it stands in."""

from __future__ import annotations

import unicodedata

# Control, format (bidi, zero width), surrogate, private, unassigned; line and paragraph breaks.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, keep: str = "") -> str:
    """`text` with every character that could move a cursor, or hide, written as its escape.

    Characters in `keep` (a line break, a tab) stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if char not in keep and unicodedata.category(char) in UNPRINTABLE
        else char
        for char in text
    )
