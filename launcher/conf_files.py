"""The files behind a configuration, value by value: which file says what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf._utils import get_yaml_loader

from launcher.kinds import hints


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of one file, at its place in the whole configuration."""

    key: str
    value: Any
    file: str
    """As shown: conf/cluster/local.yaml."""


def chosen_files(conf_dir: Path, group_overrides: list[str]) -> list[tuple[Path, str]]:
    """(file, package) in merge order, for the given choices. Hydra must be initialised.

    Raises what Hydra raises for an option or a group that is not there.
    """
    loader = GlobalHydra.instance().config_loader()
    listed = loader.compute_defaults_list("config", group_overrides, RunMode.RUN)
    files: list[tuple[Path, str]] = []
    for default in listed.defaults:
        name = default.config_path or ""
        path = conf_dir / f"{name}.yaml"
        if not name.startswith("hydra") and path.is_file():
            files.append((path, default.package or ""))
    return files


def leaves(path: Path, package: str, shown: str) -> Iterator[Leaf]:
    """Every value of a file down to the schema's own keys. Raises yaml.YAMLError."""
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=get_yaml_loader())
    if not isinstance(content, dict):
        return
    values = {key: value for key, value in content.items() if key not in ("defaults", "hydra")}
    prefix = "" if package in ("", "_global_") else package
    if values:
        yield from _leaves(values, prefix, shown, frozenset(hints()))


def _leaves(value: Any, key: str, file: str, known: frozenset[str]) -> Iterator[Leaf]:
    """Stops at keys that have no typed key below them, and at keys that do not exist."""
    deeper = not key or any(name.startswith(f"{key}.") for name in known)
    deeper = deeper or key == "topology.roles" or key.startswith("topology.roles.")
    if isinstance(value, Mapping) and value and deeper:
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else str(name), file, known)
        return
    yield Leaf(key, value, file)


def dotted(value: Any, key: str) -> Iterator[str]:
    """Every key at and below a value: flags.all, flags.all.x, flags.all.x.y."""
    yield key
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from dotted(item, f"{key}.{name}")


def open_in(value: Any, key: str) -> Iterator[str]:
    """Keys of a raw value that are left at `???`."""
    if isinstance(value, str) and value == "???":
        yield key
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from open_in(item, f"{key}.{name}")
