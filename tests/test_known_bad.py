"""Every row of the known-bad table is set off by its example and left alone by its near miss."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.known_bad import KNOWN_BAD
from launcher.known_bad.__main__ import document
from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View
from tests.compose import config_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
BY_NAME = {entry.name: entry for entry in KNOWN_BAD}


def found(entry: KnownBad, overrides: tuple[str, ...]) -> list[str]:
    """What an entry says of a command line."""
    return list(entry.found(View(config_of(*overrides))))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_example_sets_it_off_and_the_near_miss_does_not(name: str) -> None:
    entry = BY_NAME[name]
    texts = found(entry, entry.example)
    assert texts, f"{name}: its example {entry.example} does not set it off"
    for text in texts:
        assert "=" in text.split(":", 1)[0], f"{name}: must begin with key=value: {text}"
        assert entry.remedy in text
        assert entry.reference in text
    assert entry.near_miss, f"{name}: needs a near miss"
    assert not found(entry, entry.near_miss)


def test_names_are_unique_and_levels_are_two() -> None:
    assert len(BY_NAME) == len(KNOWN_BAD)
    assert {entry.level for entry in KNOWN_BAD} == {"error", "warning"}


def test_the_page_is_the_table() -> None:
    path = DOCS / "known-bad.md"
    assert path.read_text() == document(), "run: python -m launcher.known_bad > docs/known-bad.md"
