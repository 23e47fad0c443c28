"""The last measurement of every row, and the page that shows them."""

from __future__ import annotations

import fcntl
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tests.fault_matrix.row import Row, Seen

ROOT = Path(__file__).resolve().parents[2]
MEASURED = Path(__file__).parent / "measured.json"
PAGE = ROOT / "docs" / "fault-matrix.md"
SAID = 230
KEPT = 1500

HEAD = """\
# The fault matrix

Written by `python -m tests.fault_matrix` (`make matrix`), never by hand: each row struck a real
run and was measured as it says. Quick rows of this machine run in
the ordinary tests too, those of Slurm with `pytest -m long`. Noticing counts from
the fault to the run's first word about it; its limit is 2 s for what ends, and the budget of the
phase for what hangs. Cleaning counts from there until the driver is gone (on Slurm: until it has
looked that nothing is left and written outcome.json); its limit is 12 s. Survivors are looked for
in the process table, of all nodes on Slurm. Points: kept, of those written before the fault.

"""

REMARKS = {
    "2026-11-30": (
        "measured while other work kept the machine's two cores at a load average of 15 to 25, so "
        "the seconds are longer than an idle machine's; a row that came out above a limit there "
        "was struck again, and keeps its earlier date where that did not help either"
    )
}
"""What is to be known of the rows of a day; shown while there is one."""


def load() -> dict[str, Any]:
    """Measurements by row name."""
    found: dict[str, Any] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return found


def seen_of(found: dict[str, Any]) -> Seen:
    """A measurement as it was taken."""
    return Seen(**{field.name: found[field.name] for field in fields(Seen)})


def homely(said: str) -> str:
    """What was said, without the paths of the machine that it was said on."""
    for path, word in (
        (f"{ROOT}/", ""),
        (str(Path(sys.base_prefix).resolve()), "PYTHON"),
        (str(Path(sys.prefix)), "ENVIRONMENT"),
        (tempfile.gettempdir(), "SCRATCH"),
        (str(Path.home()), "HOME"),
    ):
        said = said.replace(path, word)
    return said


def note(row: Row, seen: Seen, where: str, date: str, versions: str) -> None:
    """Keeps a row's new measurement and writes the page anew."""
    with (MEASURED.parent / "row.py").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two commands may measure at once
        found = load()
        short = {**asdict(seen), "said": homely(seen.said)[:KEPT]}
        found[row.name] = {**short, "where": where, "date": date, "versions": versions}
        MEASURED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def page(groups: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """The page: a table for each place in which rows run."""
    found = load()
    dates = {seen["date"] for seen in found.values()}
    remarks = [f"Rows of {day}: {text}.\n\n" for day, text in REMARKS.items() if day in dates]
    text = HEAD + "".join(remarks)
    for title, rows in groups:
        text += f"## {title}\n\n"
        text += (
            "| fault | moment | status | notice s | clean s | survivors | points | said | date |\n"
        )
        text += "|---|---|---|---|---|---|---|---|---|\n"
        text += "".join(_line(row, found.get(row.name)) for row in rows) + "\n"
        versions = sorted({found[row.name]["versions"] for row in rows if row.name in found})
        text += f"With {'; '.join(versions) or 'nothing yet'}.\n\n"
    return text.rstrip() + "\n"


def _line(row: Row, seen: dict[str, Any] | None) -> str:
    if seen is None:
        return f"| {row.fault} | {row.moment} | not run |  |  |  |  |  |  |\n"
    said = " ".join(str(seen["said"]).split()).replace("|", "\\|")
    cells = [
        row.fault,
        row.moment,
        seen["status"],
        _number(seen["notice_s"]),
        _number(seen["clean_s"]),
        str(len(seen["survivors"])),
        f"{seen['points_kept']} of {seen['points_before']}",
        said[:SAID] + ("..." if len(said) > SAID else ""),
        seen["date"],
    ]
    return "| " + " | ".join(cells) + " |\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
