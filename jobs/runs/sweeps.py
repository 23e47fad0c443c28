"""Sweeps as their own records tell them: sweep.json beside the run directories of its jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.plain_text import printable
from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.runs.finding import sweep_of
from jobs.runs.looking import Seen
from jobs.runs.words import columns

HEAD = ("sweep", "jobs", "points", "tables", "")


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep: its record, and its runs that were looked at."""

    path: Path
    record: dict[str, Any]
    seen: Sequence[Seen]

    @property
    def name(self) -> str:
        """The random end of its folder's name."""
        return self.path.name.rsplit("-", 1)[-1]

    def asked(self) -> list[dict[str, Any]]:
        """Its jobs as the launcher noted them: submitted, refused, reused, planned."""
        return dicts(self.record.get("runs"))

    def gone(self) -> list[dict[str, Any]]:
        """Jobs whose run directory was removed since."""
        return [
            run
            for run in self.asked()
            if run.get("directory") and not (self.path / Path(str(run["directory"])).name).is_dir()
        ]

    def states(self) -> str:
        """3 completed, 1 failed, 1 refused: what became of its jobs."""
        counts = Counter(one.standing.word for one in self.seen)
        others = (run.get("state") for run in self.asked() if not run.get("directory"))
        counts.update(str(state) for state in others)
        counts.update("deleted" for _ in self.gone())
        told = (f"{n} {word.replace('_', ' ')}" for word, n in counts.items())
        return printable(", ".join(told)) or "none"

    def points(self) -> str:
        """Landed of planned, and those that an earlier run had measured."""
        landed = sum(len(one.facts.points) for one in self.seen)
        planned = sum(one.facts.planned for one in self.seen)
        reused = sum(len(dicts(run.get("reused"))) for run in self.asked())
        return f"{landed}/{planned}" + (f" + {reused} reused" if reused else "")

    def tables(self) -> str:
        """Whether its tables are there, or which job writes them."""
        if (self.path / "table.txt").is_file():
            return "written"
        table = next(iter(dicts([self.record.get("table")])), {})
        if table.get("error"):
            return printable(f"no job: {table['error']}")[:60]
        return printable(f"job {table['job_id']}") if table.get("job_id") else "-"


def dicts(value: object) -> list[dict[str, Any]]:
    """The mappings of a list, whatever else a torn or foreign record has there."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def sweeps_among(seen: Sequence[Seen]) -> list[Sweep]:
    """The sweeps that the runs belong to, in their order; records that cannot be read left out."""
    found: dict[Path, list[Seen]] = {}
    for one in seen:
        home = sweep_of(one.facts.run_dir)
        if home is not None:
            found.setdefault(home, []).append(one)
    return [made for home, runs in found.items() if (made := read_sweep(home, runs)) is not None]


def read_sweep(home: Path, seen: Sequence[Seen]) -> Sweep | None:
    """One sweep; None where its record cannot be read."""
    try:
        return Sweep(home, read_object(home / "sweep.json"), seen)
    except RecordError:
        return None


def sweeps_text(sweeps: Sequence[Sweep]) -> str:
    """One row a sweep; empty where there is none."""
    if not sweeps:
        return ""
    rows = [HEAD, *((s.name, s.states(), s.points(), s.tables(), s.path.name) for s in sweeps)]
    return "\n" + "\n".join(columns([[printable(cell) for cell in row] for row in rows])) + "\n"


def sweep_text(sweep: Sweep) -> str:
    """`show` of a sweep, above its runs' rows."""
    return "\n".join(printable(line) for line in _lines(sweep)) + "\n\n"


def _lines(sweep: Sweep) -> Iterator[str]:
    record = sweep.record
    yield f"sweep       {sweep.path.name}"
    yield f"directory   {sweep.path}"
    yield f"command     {record.get('command', '-')}"
    entries = dicts(record.get("combinations"))
    yield f"asked for   {len(entries)} combinations"
    yield f"jobs        {sweep.states()}"
    yield f"points      {sweep.points()}"
    yield f"tables      {sweep.tables()}; python -m analysis table {sweep.path}"
    for run in sweep.asked():
        if run.get("state") == "refused":
            yield f"refused     {run.get('name')}: {run.get('error')}"
        elif run.get("state") == "reused":
            yield f"reused      {run.get('name')}: every point was measured before"
        elif not run.get("directory"):
            yield f"not started {run.get('name')}"
    for run in sweep.gone():
        yield f"deleted     {run.get('name')}: {run['directory']} is not there any more"
    for entry in entries:
        if entry.get("state") == "skipped":
            yield f"skipped     {' '.join(map(str, _list(entry.get('overrides'))))}"
            yield from (f"              {problem}" for problem in _list(entry.get("problems")))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
