"""Parts of a composed configuration: changed and converted alone, set into a typed one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launcher.composing import texts_of
from launcher.mistakes import unknown_keys
from launcher.schema import LaunchConfig

LIBRARY_ERRORS = (HydraException, OmegaConfBaseException, ValueError, TypeError, AttributeError)


class NotSureError(Exception):
    """The short way may give something else than the whole composition."""


def part_of(root: DictConfig, key: str) -> str:
    """The smallest mapping of the composition that an override of `key` changes.

    That is the last one above the key that is there; of a key without dots, the value itself.
    """
    first, *rest = key.split(".")
    node = root._get_node(first, validate_access=False)
    if node is None:
        raise NotSureError
    path = [first]
    for name in rest[:-1]:
        inner = (
            node._get_node(name, validate_access=False) if isinstance(node, DictConfig) else None
        )
        if not isinstance(inner, DictConfig) or inner._is_none() or inner._is_missing():
            break
        node = inner
        path.append(name)
    if rest and (not isinstance(node, DictConfig) or node._is_none() or node._is_missing()):
        raise NotSureError
    return ".".join(path)


def apart(parts: set[str]) -> list[str]:
    """Those of which none lies inside another."""
    return [
        part
        for part in sorted(parts)
        if not any(other != part and inside(part, other) for other in parts)
    ]


def inside(key: str, part: str) -> bool:
    """Whether a key is a part or lies in it."""
    return f"{key}.".startswith(f"{part}.")


def converted(root: DictConfig, part: str, overrides: Sequence[Override]) -> Any:
    """The part with overrides set, as typed() would have it; the composition stays as it was."""
    *above, name = part.split(".")
    holder: Any = root
    for step in above:
        holder = holder._get_node(step)
    kept = holder._content[name]
    holder._content[name] = copy.deepcopy(kept)
    try:
        ConfigLoaderImpl._apply_overrides_to_config(list(overrides), root)
        node = holder._content[name]
        if not OmegaConf.is_config(node):
            if node._is_missing() or node._is_interpolation():
                raise NotSureError
            return node._value()
        plain: Any = OmegaConf.to_container(node, resolve=False)
        for step in reversed(part.split(".")):
            plain = {step: plain}
        if "???" in texts_of(plain) or unknown_keys(plain, LaunchConfig):
            raise NotSureError
        return OmegaConf.to_object(node)
    except LIBRARY_ERRORS as error:
        raise NotSureError from error
    finally:
        holder._content[name] = kept


def put(config: LaunchConfig, part: str, value: Any) -> None:
    """Set a typed part in its place."""
    *above, name = part.split(".")
    holder: Any = config
    for step in above:
        holder = holder[step] if isinstance(holder, dict) else getattr(holder, step)
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)
