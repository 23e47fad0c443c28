"""Where a run's figures are from: versions, code, configuration; what differs between runs first.

User and host names of run.json stay out: a report is passed on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from analysis.errors import BrokenFileError
from analysis.run import Run
from analysis.safetext import printable
from jobs.record_files import read_object
from jobs.store import RunDir

Pairs = dict[str, str]


def provenance(run: Run) -> Pairs:
    """What run.json and deployment.json say, in words by name; what is unknown is left out."""
    pairs = dict(_of_run(run, _object(RunDir(run.path).run_json)))
    pairs |= dict(_found(_object(RunDir(run.path).deployment)))
    return {printable(name): printable(text) for name, text in pairs.items()}


def _of_run(run: Run, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    told = _part(data, "provenance")
    yield "run", run.run_id
    yield "created", str(data.get("created") or "unknown")
    yield "outcome", run.status
    yield "engine", run.engine
    for label, text in run.labels.items():
        yield label if label != "engine" else "engine option", text
    if told.get("git_sha"):
        yield (
            "git",
            f"{told['git_sha']}{' and uncommitted changes' if told.get('git_dirty') else ''}",
        )
    for name in ("launcher_version", "python"):
        if told.get(name):
            yield name.replace("_", " "), str(told[name])
    for name, version in sorted(_part(told, "packages").items()):
        yield name, str(version)
    if run.snapshot:
        yield "snapshot", run.snapshot
    if isinstance(told.get("overrides"), list):
        yield "overrides", shlex.join(str(word) for word in told["overrides"])
    if isinstance(data.get("sweep"), str):
        yield "sweep", data["sweep"]


def _found(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the job found on its nodes, and the hash of what it served with."""
    if isinstance(data.get("sha256"), str):
        yield "deployment", data["sha256"]
    for place, found in _part(_part(data, "deployment"), "found").items():
        if isinstance(found, str):
            yield f"found: {place}", found
        elif isinstance(found, dict):
            for name, value in sorted(found.items()):
                if isinstance(value, str | int | float):
                    yield f"found: {place} {name}", str(value)


def split(runs: list[Pairs]) -> tuple[Pairs, list[str]]:
    """What all runs share, and the names of what they do not, in the order first told."""
    names = list(dict.fromkeys(name for pairs in runs for name in pairs))
    same = {
        name: runs[0][name]
        for name in names
        if len(runs) > 1 and len({pairs.get(name) for pairs in runs}) == 1
    }
    return same, [name for name in names if name not in same]


def _object(path: Any) -> dict[str, Any]:
    """A record that is broken has had its warning when the runs were loaded."""
    try:
        return read_object(path)
    except BrokenFileError:
        return {}


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}
