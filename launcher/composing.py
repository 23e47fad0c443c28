"""What Hydra makes of a command line: one configuration, or each combination of a sweep."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from launcher.errors import LauncherError, PlanError
from launcher.kinds import ill_lists
from launcher.mistakes import nearest, open_keys, unknown_keys
from launcher.schema import LaunchConfig

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"
MULTIRUN = re.compile(r"-m+|--mu(?:l(?:t(?:i(?:r(?:un?)?)?)?)?)?")
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


def is_multirun(word: str) -> bool:
    """Whether a word is Hydra's -m, in any spelling that its command line reads as that."""
    return MULTIRUN.fullmatch(word) is not None


def is_sweep(words: Sequence[str]) -> bool:
    """Whether a command line is a multirun and nothing else that Hydra's own program answers."""
    dashed = [word for word in words if word.startswith("-")]
    return bool(dashed) and all(map(is_multirun, dashed))


def _compose_one(words: list[str]) -> Combination:
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        config = compose("config", overrides=words, return_hydra_config=True)
    return combination_of(config, config.hydra)


def combination_of(config: DictConfig, settings: Any) -> Combination:
    """What Hydra composed, its own part (`settings`) taken out."""
    overrides: Any = OmegaConf.to_container(settings.overrides.task, resolve=False)
    chosen = settings.runtime.choices
    labels = {group: str(chosen[group]) for group in GROUPS}
    if "hydra" in config:
        with open_dict(config):
            del config["hydra"]
    return Combination(config=config, labels=labels, overrides=tuple(overrides))


@hydra.main(version_base=None, config_path=str(CONF_DIR), config_name="config")
def _collect(config: DictConfig) -> None:
    composed.append(combination_of(config, HydraConfig.get()))


def typed(config: DictConfig) -> LaunchConfig:
    """The composed configuration as typed values; open `???` are named all at once."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    missing = sorted(open_keys(config)) if "???" in texts_of(plain) else []
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


def texts_of(value: Any) -> set[str]:
    """Every text in a plain tree."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(texts_of(item) for item in inner))
