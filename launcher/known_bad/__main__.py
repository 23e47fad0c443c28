"""python -m launcher.known_bad: the table as docs/known-bad.md has it, on standard output."""

from __future__ import annotations

import sys

from launcher.known_bad import KNOWN_BAD
from launcher.known_bad.entry import KnownBad

HEAD = """# Combinations known to be wrong

Written by `python -m launcher.known_bad > docs/known-bad.md` from the table in
`launcher/known_bad/`; a test compares the two and tries every example and every near miss. An error
stops the submission; a warning is printed, and with `check=strict` stops it too. Examples are
overrides of the default configuration.
"""


def document() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_table("error", "Errors"), "", *_table("warning", "Warnings"), ""])


def _table(level: str, title: str) -> list[str]:
    rows = [entry for entry in KNOWN_BAD if entry.level == level]
    head = [f"## {title} ({len(rows)})", "", "| name | releases | example | do | reference |"]
    return [*head, "|---|---|---|---|---|", *(_row(entry) for entry in rows)]


def _row(entry: KnownBad) -> str:
    releases = f"from {entry.since}" if entry.since != "0" else ""
    releases += f" before {entry.before}" if entry.before else ""
    example = " ".join(f"`{word}`" for word in entry.example) or "the default"
    cells = [entry.name, releases.strip() or "all", example, entry.remedy, entry.reference]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(document())
