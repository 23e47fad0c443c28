"""Texts that would lose their spelling: bare numbers where a text is meant (1_000, 12e4, .5, 0123).

Hydra and YAML read them as numbers, and what the program is given is the number's own text: node
12e4 would become 120000.0, and nobody would be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from launcher.kinds import free_value, hints

ODD = r"[+-]?(?:[0-9][0-9_]*_[0-9_]*|0[0-9_]+|[0-9_]*\.[0-9_]*(?:e[+-]?[0-9]+)?|[0-9_]+e[+-]?[0-9]+"
ODD += r"|0x[0-9a-f]+|0b[01]+|[0-9]+(?::[0-5]?[0-9])+|\.?nan|\.?inf|\+[0-9]+)"
ODD_VALUE = re.compile(rf"(?:^|[=,(:\[\s]){ODD}(?=$|[,)}}\]\s])", re.IGNORECASE)
TEXT_NAMES = ("account", "partition", "qos", "reservation", "exclude", "dependency", "name")
ODD_LINE = re.compile(
    rf"^\s*(?:{'|'.join(TEXT_NAMES)}|image|served_name|[A-Z][A-Z0-9_]*):\s+(?i:{ODD})\s*(?:#|$)",
    re.MULTILINE,
)
FREE_TEXTS = ("cluster.sbatch.", "sweep.table_sbatch.")
"""Options that become text on a command line, whatever their type."""


def changed_overrides(words: Sequence[str]) -> Iterator[str]:
    """Overrides of texts whose value is a number that is written otherwise."""
    parser = OverridesParser.create()
    for word in words:
        if ODD_VALUE.search(word.partition("=")[2]):
            try:
                yield from _changed(parser.parse_override(word))
            except HydraException:  # told by the composition
                continue


def _changed(override: Override) -> Iterator[str]:
    key, typed = override.key_or_group, str(override.input_line).partition("=")[2]
    if "range(" in typed:
        return
    values = (
        list(override.sweep_iterator())
        if override.is_sweep_override() and override.is_discrete_sweep()
        else [override.value()]
    )
    parts = {part.strip() for part in re.split(r"[,(){}\[\]:]", typed)}
    for value in values:
        for whole, item in _texts(key, value):
            if type(item) in (int, float) and str(item) not in parts:
                yield _told(key, typed, item, whole[len(key) + 1 :])


def _texts(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(key, value) of every text at and below a value."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(f"{key}.{name}", item)
    elif isinstance(value, list) and hints().get(key) == list[str]:
        yield from ((key, item) for item in value)
    elif _is_text(key):
        yield key, value


def _told(key: str, typed: str, value: object, name: str = "") -> str:
    within = f"{name} is " if name else ""
    example = f"{key}={{{name}:'...'}}" if name else f"{key}='...'"
    return (
        f"{key}={typed}: {within}read as the number {value}, and a text is meant: put it in "
        f"quotes, as in \"{example}\" on the command line or '...' in a file"
    )


def _is_text(key: str) -> bool:
    hint = hints().get(key, free_value(key))
    return hint in (str, str | None) or key.startswith(FREE_TEXTS)


def may_change(text: str) -> bool:
    """Whether a YAML file may hold such a number where a text is meant."""
    return ODD_LINE.search(text) is not None


def changed_in_file(text: str, key: str, value: Any) -> Iterator[str]:
    """Texts of one value of a file (a mapping of texts, too) that YAML read as numbers."""
    entries = value.items() if isinstance(value, Mapping) else [("", value)]
    for name, item in entries:
        whole = f"{key}.{name}" if name else key
        if type(item) not in (int, float) or not _is_text(whole):
            continue
        leaf = whole.rpartition(".")[2]
        found = re.search(rf"(?:^|[\s{{,]){re.escape(leaf)}:\s+([^\s,}}#]+)", text, re.MULTILINE)
        if found and found[1] != str(item):
            yield _told(whole, found[1], item)
