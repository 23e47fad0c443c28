"""Combinations of settings that are known to fail or to mislead, each with its public reference."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad import (
    connector,
    environment,
    graphs,
    hybrid,
    network,
    nixl,
    parallel,
    same_values,
    scheduler,
    servers,
    shapes,
)
from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View
from launcher.schema import LaunchConfig

KNOWN_BAD: tuple[KnownBad, ...] = (
    *same_values.ENTRIES,
    *connector.ENTRIES,
    *shapes.ENTRIES,
    *nixl.ENTRIES,
    *hybrid.ENTRIES,
    *servers.ENTRIES,
    *scheduler.ENTRIES,
    *graphs.ENTRIES,
    *environment.ENTRIES,
    *parallel.ENTRIES,
    *network.ENTRIES,
)


def known_bad(config: LaunchConfig, level: str) -> Iterator[str]:
    """Texts of all entries of a level that a configuration meets."""
    view = View(config)
    for entry in KNOWN_BAD:
        if entry.level == level:
            yield from entry.found(view)
