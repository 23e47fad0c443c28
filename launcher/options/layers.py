"""Where every flag and variable was written, and what comes out of the layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.errors import LauncherError
from launcher.flags import merge_flags, merge_layers
from launcher.schema import LaunchConfig

FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Written:
    """One flag as one layer has it, or as a role gets it."""

    name: str
    """With hyphens, as it comes out on the command line."""
    where: str
    """The key to edit: layer and name as written."""
    value: Any


def flag_layers(config: LaunchConfig, role: str) -> list[tuple[str, Mapping[str, Any]]]:
    """(key, flags) of every layer of a role, in the order in which later ones win."""
    shape = config.topology.roles.get(role)
    return [
        ("engine.flags", config.engine.flags),
        ("model.flags", config.model.flags),
        ("flags.all", config.flags.all),
        (f"flags.roles.{role}", config.flags.roles.get(role, {})),
        (f"topology.roles.{role}.flags", shape.flags if shape else {}),
    ]


def env_layers(config: LaunchConfig) -> list[tuple[str, Mapping[str, str]]]:
    """(key, variables) of every layer of environment, in the order in which later ones win."""
    return [
        ("cluster.env", config.cluster.env),
        ("engine.env", config.engine.env),
        ("model.env", config.model.env),
        ("flags.env", config.flags.env),
    ]


def all_layers(config: LaunchConfig) -> dict[str, Mapping[str, Any]]:
    """Every layer of flags once, those of roles that the topology lacks too."""
    found: dict[str, Mapping[str, Any]] = {}
    for role in dict.fromkeys([*config.topology.roles, *config.flags.roles]):
        found.update(flag_layers(config, role))
    return found


def dashed(name: str) -> str:
    """A flag's name as it comes out on a command line."""
    return name.replace("_", "-")


def entries(layer: str, flags: Mapping[str, Any]) -> Iterator[Written]:
    """Every flag of one layer."""
    for raw, value in flags.items():
        yield Written(dashed(str(raw)), f"{layer}.{raw}", value)


def merged(config: LaunchConfig, role: str) -> dict[str, Written]:
    """What a role's command line gets, each flag with the last layer that set it.

    Broken JSON text, which `spelling` tells with its layer, leaves its entry out.
    """
    found: dict[str, Written] = {}
    for layer, flags in flag_layers(config, role):
        for entry in entries(layer, flags):
            before = found.pop(entry.name, None)
            base = {} if before is None else {entry.name: before.value}
            try:
                value = merge_flags(base, {entry.name: entry.value}).get(entry.name)
            except LauncherError:
                value = before.value if before else None
            if value is None:
                continue
            found[entry.name] = Written(entry.name, entry.where, value)
    return found


def spelling(config: LaunchConfig) -> Iterator[str]:
    """Names that no command line could carry as they are written, and broken JSON text."""
    for layer, flags in all_layers(config).items():
        seen: dict[str, str] = {}
        for entry in entries(layer, flags):
            raw = entry.where[len(layer) + 1 :]
            if raw.startswith("-"):
                yield (
                    f"{entry.where}={entry.value!r}: names are written without their hyphens in "
                    f"front, the long form: {layer}.{raw.lstrip('-') or 'NAME'}"
                )
            elif "." in raw:
                head, _, rest = raw.partition(".")
                yield (
                    f"{entry.where}={entry.value!r}: a dotted flag would replace the whole of "
                    f"--{head}; write a mapping: {layer}.{head}: {{{rest.replace('.', ': {')}: "
                    f"{entry.value!r}{'}' * rest.count('.')}}}"
                )
            elif not FORM.fullmatch(raw):
                yield f"{entry.where}={entry.value!r}: allowed in a name: letters, digits, -"
            elif entry.name in seen:
                yield (
                    f"{entry.where}={entry.value!r}: the same flag as {layer}.{seen[entry.name]}; "
                    "give it once"
                )
            seen[entry.name] = raw
            try:
                merge_layers([(layer, {raw: entry.value})])
            except LauncherError as error:
                yield str(error)


def unreadable(config: LaunchConfig, role: str, name: str) -> bool:
    """Whether a layer of the role has broken JSON text for a flag, so that the merge is not it."""
    for _, flags in flag_layers(config, role):
        try:
            merge_flags({raw: value for raw, value in flags.items() if dashed(raw) == name})
        except LauncherError:
            return True
    return False


def place_of(config: LaunchConfig, role: str, name: str, key: str) -> str:
    """The last layer that wrote `key` into the mapping of flag `name`, as a key to edit."""
    for layer, flags in reversed(flag_layers(config, role)):
        for entry in entries(layer, flags):
            if entry.name != name:
                continue
            try:
                value = merge_flags({name: entry.value}).get(name)
            except LauncherError:
                continue
            if isinstance(value, Mapping) and key in value:
                return f"{entry.where}.{key}"
    return f"{name}.{key}"
