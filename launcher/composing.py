"""What Hydra makes of a command line: one configuration, or each combination of a sweep."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from launcher.errors import LauncherError, PlanError
from launcher.kinds import ill_lists
from launcher.mistakes import nearest, open_keys, unknown_keys
from launcher.schema import LaunchConfig
from launcher.sweep_axes import Axes, read_axes, zip_value

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"
GROUPS = ("cluster", "topology", "model", "flags", "engine", "router", "workload", "accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One composed configuration with the options chosen and the overrides given."""

    config: DictConfig
    labels: Mapping[str, str]
    """Group -> chosen option."""
    overrides: tuple[str, ...]


composed: list[Combination] = []
"""What Hydra's own command line hands over; several in a multirun."""


def compose_all(words: Sequence[str]) -> list[Combination]:
    """Every configuration a command line asks for; raises what Hydra and OmegaConf raise.

    Plain overrides are composed once, by Hydra's compose API; anything with a dash (-m, --help,
    --cfg) goes through Hydra's own command line, which composes each configuration twice.
    """
    if not any(word.startswith("-") for word in words):
        return [_compose_one(list(words))]
    composed.clear()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["LAUNCHER_SCRATCH"] = scratch
        _collect()
    return list(composed)


def is_sweep(words: Sequence[str]) -> bool:
    """Whether a command line is a multirun and nothing else that Hydra's own program answers."""
    dashed = {word for word in words if word.startswith("-")}
    return bool(dashed) and dashed <= {"-m", "--multirun"}


def sweep_axes(words: Sequence[str]) -> Axes:
    """The axes of a multirun: those of the command line, and those that a file keeps.

    A file keeps axes in `hydra.sweeper.params` and couples them by `sweep.zip`.
    """
    overrides = [word for word in words if not word.startswith("-")]
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        return _axes_with_kept(overrides)


def _axes_with_kept(overrides: Sequence[str]) -> Axes:
    axes = read_axes(overrides)
    try:
        config = compose("config", overrides=axes.fixed(), return_hydra_config=True)
        kept: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
        zips: Any = OmegaConf.to_container(config.sweep.zip, resolve=True)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError):
        return axes  # what is wrong is told combination by combination
    axes = read_axes(overrides, kept.get("params") or {})
    return Axes(axes.columns, zip_value(zips) if zips else ())


class Composer:
    """Composes many command lines; those with the same options of groups share one composition."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str, ...], bytes] = {}
        self._parsed: dict[str, Override] = {}

    def combination(self, words: Sequence[str]) -> Combination:
        """One combination of a sweep; raises what Hydra and OmegaConf raise."""
        for word in words:
            if word not in self._parsed:
                self._parsed[word] = OverridesParser.create().parse_override(word)
        parsed = [self._parsed[word] for word in words]
        chosen = [
            override
            for override in parsed
            if (CONF_DIR / override.key_or_group).is_dir()
            or override.key_or_group.startswith("hydra")
        ]
        key = tuple(str(override.input_line) for override in chosen)
        if key not in self._bases:
            self._bases[key] = pickle.dumps(_compose_one(list(key)))
        base: Combination = pickle.loads(self._bases[key])
        values = [override for override in parsed if override not in chosen]
        OmegaConf.set_struct(base.config, True)
        ConfigLoaderImpl._apply_overrides_to_config(values, base.config)
        own = tuple(word for word in words if not word.startswith("hydra"))
        return Combination(config=base.config, labels=base.labels, overrides=own)


def _compose_one(words: list[str]) -> Combination:
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        config = compose("config", overrides=words, return_hydra_config=True)
    return _combination(config, config.hydra)


def _combination(config: DictConfig, settings: Any) -> Combination:
    overrides: Any = OmegaConf.to_container(settings.overrides.task, resolve=False)
    chosen = settings.runtime.choices
    labels = {group: str(chosen[group]) for group in GROUPS}
    if "hydra" in config:
        with open_dict(config):
            del config["hydra"]
    return Combination(config=config, labels=labels, overrides=tuple(overrides))


@hydra.main(version_base=None, config_path=str(CONF_DIR), config_name="config")
def _collect(config: DictConfig) -> None:
    composed.append(_combination(config, HydraConfig.get()))


def typed(config: DictConfig) -> LaunchConfig:
    """The composed configuration as typed values; open `???` are named all at once."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    missing = sorted(open_keys(config)) if "???" in _texts(plain) else []
    if missing:
        raise PlanError(
            f"{key} is not set (???): give it a value, as in {key}=..." for key in missing
        )
    unknown = unknown_keys(plain, LaunchConfig)
    if unknown:
        raise PlanError(
            f"{key}: unknown key; nearest valid keys: {nearest(key)}" for key in unknown
        )
    made = OmegaConf.to_object(config)
    if not isinstance(made, LaunchConfig):
        raise LauncherError("conf/config.yaml: its defaults list must start with launch_schema")
    if ill := [problem for _, problem in ill_lists(made)]:
        raise PlanError(ill)
    return made


def _texts(value: Any) -> set[str]:
    """Every text in a plain tree."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(_texts(item) for item in inner))
