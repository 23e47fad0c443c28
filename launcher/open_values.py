"""Texts left open: `???` with blanks around it, or in quotes, which OmegaConf takes for a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.schema import LaunchConfig
from launcher.texts import texts_in

OPEN = "???"
"""OmegaConf's word for a value that is still to be given."""


def open_texts(config: LaunchConfig) -> Iterator[str]:
    """Values anywhere in the configuration that are nothing but the word for a missing one."""
    if not any(text.strip() == OPEN for text in texts_in(config)):
        return
    for key, value in _texts("", config):
        if value.strip() == OPEN:
            yield f"{key}={value!r} is not set (???): give it a value, as in {key}=..."


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif dataclasses.is_dataclass(value):
        yield from _texts(key, vars(value))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(f"{key}.{name}" if key else str(name), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(f"{key}[{index}]", item)
