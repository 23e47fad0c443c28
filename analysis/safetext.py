"""Text that other people chose, made harmless for the place where it is shown."""

from __future__ import annotations

import re

from jobs.plain_text import printable

__all__ = ["csv_cell", "latex_cell", "markdown_cell", "printable", "shorten"]

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
MARKDOWN = re.compile(r"[\\|`\[*~$]|(?<!\w)_|_(?!\w)")
FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` characters, cut in the middle (names differ at both ends)."""
    if len(text) <= width or width < 5:
        return text
    tail = (width - 2) // 2
    return f"{text[: width - 2 - tail]}..{text[-tail:]}"


def csv_cell(text: str) -> str:
    """`text` such that no spreadsheet takes it for a formula (a quote mark goes in front)."""
    return f"'{text}" if text.lstrip().startswith(FORMULA_STARTS) else text


def markdown_cell(text: str) -> str:
    """`text` as one cell of a markdown table: no cell ends early, no HTML, emphasis or formula
    starts."""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return MARKDOWN.sub(r"\\\g<0>", text)


def latex_cell(text: str) -> str:
    """`text` such that LaTeX prints it: no command starts, no cell ends early.

    A first cell that begins with [ or * would be an option of the row end above it.
    """
    shown = "".join(LATEX.get(sign, sign) for sign in text)
    return f"{{{shown[0]}}}{shown[1:]}" if shown[:1] in ("[", "*") else shown
