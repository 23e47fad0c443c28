"""Which names a release has and what each takes: the shipped tables, read once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

Spec = Mapping[str, Any]
"""What one name takes: kind, nargs, choices, default, none, config, short, also, inverse,
deprecated, each only where it says something."""

History = list[tuple[int, int, Spec]]


@dataclass(slots=True, kw_only=True)
class Table:
    """One program's names over its releases, seen from one release of the table."""

    program: str
    releases: tuple[str, ...]
    """Every release of the table, oldest first."""
    at: int
    """Index of the release that is looked at."""
    exact: bool
    """Whether that is the release asked for; else the nearest one at or below it."""
    data: Mapping[str, Any]
    seen: dict[tuple[str, ...], dict[str, Spec]] = field(default_factory=dict)
    """Answers of `names`, kept."""

    @property
    def release(self) -> str:
        """The release that is looked at."""
        return self.releases[self.at]

    def spec(self, section: str, name: str, *inside: str) -> Spec | None:
        """What `name` takes in the release looked at, None where that release lacks it."""
        for first, last, spec in self._history(section, name, *inside):
            if first <= self.at <= last:
                return spec
        return None

    def names(self, section: str, *inside: str) -> dict[str, Spec]:
        """Every name of a section that the release looked at has."""
        kept = self.seen.get((section, *inside))
        if kept is None:
            kept = self.seen[(section, *inside)] = {
                name: spec
                for name in self._names(section, *inside)
                if (spec := self.spec(section, name, *inside)) is not None
            }
        return kept

    def elsewhere(self, section: str, name: str) -> str:
        """Which releases have a name that this one lacks, as text; "" where none has."""
        spans = self._history(section, name)
        if spans:
            told = ", ".join(self.span(first, last) for first, last in _joined(spans))
            last = spans[-1][1]
            if last < self.at:
                return f"dropped in {self.releases[last + 1]} (had by {told})"
            return f"not there yet (had by {told})"
        former = self.data.get("before", {}).get(section, {}).get(name)
        return f"dropped after {former}" if former else ""

    def span(self, first: int, last: int) -> str:
        """`0.26.0 to 0.28.0`, `0.26.0`, or `0.29.0 and newer`, of two indexes."""
        if last == len(self.releases) - 1 and first > 0:
            return f"{self.releases[first]} and newer"
        return self.releases[first] + (f" to {self.releases[last]}" if last > first else "")

    def defaults(self, section: str, name: str) -> list[tuple[str, Any]]:
        """[(releases, default), ...] of a name, oldest first, equal neighbours joined."""
        joined: list[list[Any]] = []
        for first, last, spec in self._history(section, name):
            value = spec.get("default") if isinstance(spec, Mapping) else spec
            if joined and joined[-1][2] == value and joined[-1][1] == first - 1:
                joined[-1][1] = last
            else:
                joined.append([first, last, value])
        return [(self.span(first, last), value) for first, last, value in joined]

    def _names(self, section: str, *inside: str) -> Mapping[str, Any]:
        found: Any = self.data.get(section, {})
        for key in inside:
            found = found.get(key, {})
        names: Mapping[str, Any] = found
        return names

    def _history(self, section: str, name: str, *inside: str) -> History:
        history: History = self._names(section, *inside).get(name, [])
        return history


def _joined(spans: History) -> list[tuple[int, int]]:
    """The spans without what the name took: neighbours in one."""
    found: list[tuple[int, int]] = []
    for first, last, _ in spans:
        if found and found[-1][1] == first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def near(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The name most like `name`, "" where none is like it."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return close[0] if close else ""


def numbers(release: str) -> tuple[int, ...]:
    """(0, 33, 0) of "0.33.0"; text after the numbers is ignored."""
    found: list[int] = []
    for part in release.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


@cache
def _loaded(file: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(files(__package__).joinpath(file).read_text("utf-8"))
    return data


@cache
def vllm_table(release: str) -> Table:
    """vLLM's table for a release; for one that has none, the nearest at or below, else the oldest.

    A local build's suffix (0.33.0+site) counts as its release; rc, dev and post suffixes do not.
    """
    data = _loaded("vllm.json")
    releases = tuple(data["releases"])
    public = release.partition("+")[0]
    at = max(
        (index for index, known in enumerate(releases) if numbers(known) <= numbers(public)),
        default=0,
    )
    exact = releases[at] == public
    return Table(program="vLLM", releases=releases, at=at, exact=exact, data=data)


@cache
def router_table() -> Table:
    """vllm-router's table: one release, the one the launcher is made for."""
    data = _loaded("vllm_router.json")
    releases = tuple(data["releases"])
    return Table(program="vllm-router", releases=releases, at=0, exact=True, data=data)
