"""What the preflight saw of the nodes that bears on the figures measured there."""

from __future__ import annotations

from pathlib import Path

from analysis.errors import BrokenFileError
from analysis.safetext import printable
from jobs.record_files import read_object

SLOWING = ("CPUs", "NVLink health")
"""Checks that only warn, and whose finding makes servers slower."""


def node_doubts(file: Path) -> list[str]:
    """One text a warning in preflight.json; BrokenFileError for a file of another shape."""
    problems = read_object(file).get("problems")
    if not isinstance(problems, list) or not all(isinstance(it, dict) for it in problems):
        raise BrokenFileError(f"{file}: problems is no list of objects")
    return [
        printable(f"{it['check']} on {_some(it.get('nodes'))}: {it.get('value')}")
        for it in problems
        if it.get("state") == "warned" and it.get("check") in SLOWING
    ]


def _some(nodes: object) -> str:
    """The first nodes by name, and how many more there are."""
    names = [str(node) for node in nodes] if isinstance(nodes, list) else []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (", ".join(names[:3]) or "a node") + more
