"""Every text of a configuration, for rules that look at all of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from launcher.steady import made_once

WITHOUT = frozenset({type(None), bool, int, float})


@made_once
def texts_in(config: object) -> frozenset[str]:
    """Values and the names of mappings, wherever they stand."""
    found: set[str] = set()
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if type(value) in WITHOUT:
            continue
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif dataclasses.is_dataclass(value):
            waiting += vars(value).values()
    return frozenset(found)
