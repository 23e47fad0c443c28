"""The last measurement of every row, and the page that shows them."""

from __future__ import annotations

import fcntl
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from tests.fault_matrix.row import Row, Seen
from tests.fault_matrix.striking import Struck

ROOT = Path(__file__).resolve().parents[2]
MEASURED = Path(__file__).parent / "measured.json"
PAGE = ROOT / "docs" / "fault-matrix.md"
SAID = 230
KEPT = 1500

HEAD = """\
# The fault matrix

Written by `python -m tests.fault_matrix` (`make matrix`; single rows: `... ROW ROW`), never by
hand: each row struck a real run and was measured as it says; one that did not keep its promises
stands above the tables. Quick rows of this machine run in the ordinary tests too, those of Slurm
with `pytest -m long`. Noticing counts from the fault to the run's first word about it; its limit is
2 s for what ends, and the budget of the phase for what hangs. Cleaning counts from there until the
driver is gone (on Slurm: until it has looked that nothing is left and written outcome.json); its
limit is 12 s. Survivors are looked for in the process table, of all nodes on Slurm. Points: kept,
of those written before the fault. Load: the machine's load average (1 min) when the row began; rows
on Slurm run beside those of this machine.

"""
COLUMNS = (
    *("fault", "moment", "status", "notice s", "clean s", "survivors", "points", "said"),
    *("load", "date"),
)


class Table(Protocol):
    """What the page needs of a place: tests/fault_matrix/places.py."""

    @property
    def title(self) -> str:
        """Above its table."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its lines."""


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


@dataclass(frozen=True)
class Made:
    """When, where and with what a row was measured."""

    where: str
    date: str
    versions: str
    remark: str
    """What is to be known of it; empty: nothing."""


def note(row: Row, struck: Struck, made: Made) -> None:
    """Keeps what came of a row, in place of what came of it before."""
    seen = struck.seen or Seen(said=struck.problems[0], status="?", notice_s=None, clean_s=None)
    with _held():
        found = load()
        found[row.name] = {
            **asdict(seen),
            **asdict(made),
            "said": homely(seen.said)[:KEPT],
            "problems": [homely(problem)[:KEPT] for problem in struck.problems],
            "took_s": struck.took_s,
            "load": struck.load,
        }
        MEASURED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def write_page(places: Sequence[Table]) -> None:
    """The page anew."""
    with _held():
        PAGE.write_text(page(places, load()))


@contextmanager
def _held() -> Iterator[None]:
    """Two lanes, or two commands, may write at once."""
    with (MEASURED.parent / "row.py").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def page(places: Sequence[Table], found: dict[str, Any]) -> str:
    """The page: a table for each place in which rows run, from measurements by row name."""
    rows = [row for place in places for row in place.rows if row.name in found]
    remarks = list(dict.fromkeys(text for row in rows if (text := found[row.name]["remark"])))
    text = HEAD + _broken({row.name: row for row in rows}, found)
    for place in places:
        text += f"## {place.title}\n\n"
        text += f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
        text += "".join(_line(row, found.get(row.name), remarks) for row in place.rows) + "\n"
        versions = sorted({found[row.name]["versions"] for row in place.rows if row.name in found})
        text += f"With {'; '.join(versions) or 'nothing yet'}.\n\n"
    text += "".join(f"({number}) {remark}.\n\n" for number, remark in enumerate(remarks, 1))
    return text.rstrip() + "\n"


def _broken(rows: dict[str, Row], found: dict[str, Any]) -> str:
    """What was promised and not kept, above all tables; nothing where all was kept."""
    bad = [row for row in rows.values() if found[row.name]["problems"]]
    lines = [
        f"- **{row.name}** ({row.fault}; {row.moment}), {found[row.name]['date']}: "
        f"{_short('; '.join(found[row.name]['problems']))}\n"
        for row in bad
    ]
    head = f"## Promises not kept: {len(bad)} of {len(rows)} rows\n\n"
    return head + "".join(lines) + "\n" if bad else ""


def _line(row: Row, seen: dict[str, Any] | None, remarks: Sequence[str]) -> str:
    if seen is None:
        return f"| {row.fault} | {row.moment} | not run |{'  |' * (len(COLUMNS) - 3)}\n"
    mark = f" ({remarks.index(seen['remark']) + 1})" if seen["remark"] else ""
    cells = [
        row.fault,
        row.moment,
        seen["status"] + (" **(promise not kept)**" if seen["problems"] else ""),
        _number(seen["notice_s"]),
        _number(seen["clean_s"]),
        str(len(seen["survivors"])),
        f"{seen['points_kept']} of {seen['points_before']}",
        _short(str(seen["said"])),
        _number(seen["load"]),
        seen["date"] + mark,
    ]
    return "| " + " | ".join(cells) + " |\n"


def _short(said: str) -> str:
    said = " ".join(said.split()).replace("|", "\\|")
    return said[:SAID] + ("..." if len(said) > SAID else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
