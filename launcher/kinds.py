"""What a key of the configuration takes, in words, and a harmless value of that kind."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from launcher.plan import ROLE_ORDER
from launcher.schema import LaunchConfig

_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text (in quotes where YAML would read another type)",
}
_STAND_INS: dict[Any, Any] = {int: 1, float: 1.0, bool: False, str: "unset"}


@functools.cache
def hints() -> dict[str, Any]:
    """Dotted key -> its annotated type, roles of the topology spelled out."""
    found: dict[str, Any] = {}
    _walk(LaunchConfig, "", found)
    return found


def _walk(kind: Any, prefix: str, found: dict[str, Any]) -> None:
    annotations = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name, hint = f"{prefix}{field.name}", annotations[field.name]
        found[name] = hint
        if dataclasses.is_dataclass(hint):
            _walk(hint, f"{name}.", found)
        elif typing.get_origin(hint) is dict and dataclasses.is_dataclass(typing.get_args(hint)[1]):
            for role in ROLE_ORDER:
                found[f"{name}.{role}"] = typing.get_args(hint)[1]
                _walk(typing.get_args(hint)[1], f"{name}.{role}.", found)


def expected(hint: Any) -> str:
    """What a value of a key must be, as words of an error: "a whole number, or null"."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [item for item in typing.get_args(hint) if item is not type(None)]
        return f"{expected(inner[0])}, or null"
    if typing.get_origin(hint) is list:
        item = typing.get_args(hint)[0]
        if typing.get_origin(item) is list:
            return "a list of lists of texts, as in [[a,b],[c,d]]"
        example = "[64,128]" if item is int else "[a,b]"
        return f"a list of {'whole numbers' if item is int else 'texts'}, as in {example}"
    if typing.get_origin(hint) is dict or dataclasses.is_dataclass(hint):
        return "a mapping, as in {name:value}"
    return _WORDS.get(hint, "another kind of value")


def stand_in(hint: Any) -> Any:
    """A harmless value of a key's kind, so that the rest can still be checked."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return None
    if typing.get_origin(hint) is list:
        return [_STAND_INS.get(typing.get_args(hint)[0], [])]
    if typing.get_origin(hint) is dict or dataclasses.is_dataclass(hint):
        return {}
    return _STAND_INS.get(hint)


@functools.cache
def _lists() -> tuple[tuple[str, Any, Callable[[LaunchConfig], Any]], ...]:
    """Keys that take a list, with their type and what reads them."""
    return tuple(
        (key, hint, attrgetter(key))
        for key, hint in hints().items()
        if typing.get_origin(hint) is list and not key.startswith("topology.roles.")
    )


def ill_lists(config: LaunchConfig) -> Iterator[tuple[str, str]]:
    """(key, problem) of lists with items of another kind: OmegaConf takes lists inside lists."""
    for key, hint, read in _lists():
        value = read(config)
        if not all(_is_a(item, typing.get_args(hint)[0]) for item in value):
            yield key, f"{key}={value}: allowed: {expected(hint)}"


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind that stands in a list: text, whole number, list of texts."""
    if typing.get_origin(kind) is list:
        inner = typing.get_args(kind)[0]
        return isinstance(value, list) and all(_is_a(item, inner) for item in value)
    return isinstance(value, kind) and not isinstance(value, bool)


def free_value(key: str) -> Any:
    """The type of the values under a key where any name may be added; None for other keys."""
    parent = key.rpartition(".")[0]
    hint = hints().get(parent)
    return typing.get_args(hint)[1] if typing.get_origin(hint) is dict else None
