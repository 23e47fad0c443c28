"""Engine flags as data: layers merged into one mapping, one mapping rendered to arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.errors import LauncherError


def merge_flags(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping from many, later layers win; null removes a flag, mappings merge key by key.

    Names are compared with `_` and `-` alike and come out with `-`. JSON text where a mapping is
    meant (as pasted from a vLLM command line) counts as that mapping; broken JSON raises.
    """
    return merge_layers(("flags.all", layer) for layer in layers)


def merge_layers(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """merge_flags of layers with their keys (`flags.all`), by which an error names its place."""
    merged: dict[str, Any] = {}
    for layer, flags in layers:
        for raw_name, raw_value in flags.items():
            name = raw_name.replace("_", "-")
            value = _structured(f"{layer}.{raw_name}", raw_value)
            if value is None:
                merged.pop(name, None)
            elif isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
                merged[name] = _merge_mapping(merged[name], value)
            elif isinstance(value, Mapping):
                merged[name] = _merge_mapping({}, value)
            else:
                merged[name] = value
    return merged


def _merge_mapping(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _merge_mapping(result[key], value)
        else:
            result[key] = value
    return result


def _structured(where: str, value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise LauncherError(
            f"{where}: value {value!r} starts like JSON but is not: {error.msg} at column "
            f"{error.colno}; write it as a YAML mapping, or on the command line as "
            f"'{where}={{key:value}}' (keys without quotes)"
        ) from error


def render_flags(flags: Mapping[str, Any], *, off_prefix: str | None) -> list[str]:
    """Command-line arguments of `flags`, in the mapping's order.

    True is the bare flag; False is `--<off_prefix><name>`, or nothing where the program has no
    such form (off_prefix None); a list is repeated values after one flag; a mapping is JSON.
    """
    argv: list[str] = []
    for name, value in flags.items():
        if value is True:
            argv.append(f"--{name}")
        elif value is False:
            if off_prefix is not None:
                argv.append(f"--{off_prefix}{name}")
        elif isinstance(value, (list, tuple)):
            argv += [f"--{name}", *(str(item) for item in value)]
        elif isinstance(value, Mapping):
            argv += [f"--{name}", json.dumps(value, separators=(",", ":"))]
        else:
            whole = isinstance(value, float) and value.is_integer()
            argv += [f"--{name}", str(int(value) if whole else value)]
    return argv
