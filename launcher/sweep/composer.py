"""Composes the many command lines of a sweep: what they share is composed once.

Hydra composes each distinct choice of groups. Onto that composition the values of one command line
are set by Hydra's own function, and only the parts of the configuration that they touch are
converted again. Where that is not sure to give what the whole composition gives (an interpolation
between keys, `???`, an unknown key, an error) the whole is composed.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launcher.composing import CONF_DIR, Combination, combination_of, texts_of, typed
from launcher.errors import PlanError
from launcher.kinds import ill_lists
from launcher.schema import LaunchConfig
from launcher.sweep.config_parts import NotSureError, apart, converted, inside, part_of, put
from launcher.sweep_axes import Axes, read_axes, zip_value

ENVIRONMENT_ONLY = re.compile(r"\$\{oc\.env:[^${}]*\}")
"""Interpolations that no override can change."""
WHOLE_NUMBER = re.compile(r"(\+{0,2}[A-Za-z_][\w.]*)=(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One combination of a sweep, typed."""

    config: LaunchConfig
    labels: Mapping[str, str]
    overrides: tuple[str, ...]


@dataclass(slots=True)
class _Base:
    """What one choice of groups composes to, before any value of the command line."""

    combination: Combination
    sweeper: Mapping[str, Any]
    packed: bytes
    independent: bool
    """Whether no value depends on another one."""
    first: bytes = b""
    """The first command line's configuration, typed and packed, and the values that it had."""
    first_values: tuple[Override, ...] = ()
    parts: dict[tuple[str, tuple[str, ...]], bytes] = field(default_factory=dict)
    """(key of a part, the overrides set on it) -> the part, typed and packed."""
    part_of: dict[str, str] = field(default_factory=dict)
    """Key of an override -> the part that it changes."""


class Composer:
    """Composes many command lines; those with the same options of groups share one composition."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str, ...], _Base] = {}
        self._parsed: dict[str, Override] = {}
        self._groups: dict[str, bool] = {}

    def axes(self, words: Sequence[str]) -> Axes:
        """The axes of a multirun: those of the command line, and those that a file keeps.

        A file keeps axes in `hydra.sweeper.params` and couples them by `sweep.zip`.
        """
        overrides = [word for word in words if not word.startswith("-")]
        with initialize_config_dir(str(CONF_DIR), version_base=None):
            axes = read_axes(overrides)
        self._parsed |= axes.read
        try:
            base, values = self._base_of(axes.fixed())
            config = _with_values(base, values)
            zips: Any = OmegaConf.to_container(config.sweep.zip, resolve=True)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError):
            return axes  # what is wrong is told combination by combination
        if kept := base.sweeper.get("params"):
            with initialize_config_dir(str(CONF_DIR), version_base=None):
                axes = read_axes(overrides, kept)
        return Axes(axes.columns, zip_value(zips) if zips else ())

    def combination(self, words: Sequence[str]) -> Combination:
        """One combination of a sweep; raises what Hydra and OmegaConf raise."""
        base, values = self._base_of(words)
        return Combination(
            config=_with_values(base, values),
            labels=base.combination.labels,
            overrides=_own(words),
        )

    def made(self, words: Sequence[str]) -> Made:
        """One combination, typed; raises what the composition raises, and PlanError."""
        base, values = self._base_of(words)
        labels = base.combination.labels
        if base.first and base.independent and "${" not in "".join(words):
            try:
                return Made(config=_quick(base, values), labels=labels, overrides=_own(words))
            except NotSureError:
                pass
        config = typed(_with_values(base, values))
        if not base.first:
            base.first, base.first_values = pickle.dumps(config), tuple(values)
        return Made(config=config, labels=labels, overrides=_own(words))

    def _base_of(self, words: Sequence[str]) -> tuple[_Base, list[Override]]:
        """The composition of the words that choose groups, and the other overrides."""
        parsed = [self._parse(word) for word in words]
        chosen = [override for override in parsed if self._chooses(override.key_or_group)]
        key = tuple(str(override.input_line) for override in chosen)
        if key not in self._bases:
            self._bases[key] = _compose_base(key)
        return self._bases[key], [override for override in parsed if override not in chosen]

    def _chooses(self, key: str) -> bool:
        if key not in self._groups:
            self._groups[key] = key.startswith("hydra") or (CONF_DIR / key).is_dir()
        return self._groups[key]

    def _parse(self, word: str) -> Override:
        """Whole numbers differ from one another in nothing but themselves: parsed once a key."""
        if word in self._parsed:
            return self._parsed[word]
        number = WHOLE_NUMBER.fullmatch(word)
        known = self._parsed.get(f"{number.group(1)}=0") if number else None
        if number and known is None:
            zero = f"{number.group(1)}=0"
            known = self._parsed[zero] = OverridesParser.create().parse_override(zero)
        self._parsed[word] = (
            replace(known, _value=int(number.group(2)), input_line=word)
            if number and known
            else OverridesParser.create().parse_override(word)
        )
        return self._parsed[word]


def _own(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if not word.startswith("hydra"))


def _compose_base(words: Sequence[str]) -> _Base:
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        config = compose("config", overrides=list(words), return_hydra_config=True)
    sweeper: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    made = combination_of(config, config.hydra)
    OmegaConf.set_struct(made.config, True)
    texts = texts_of(OmegaConf.to_container(made.config, resolve=False))
    independent = not any("${" in ENVIRONMENT_ONLY.sub("", text) for text in texts)
    return _Base(made, sweeper, pickle.dumps(made.config), independent)


def _with_values(base: _Base, values: Sequence[Override]) -> DictConfig:
    config: DictConfig = pickle.loads(base.packed)
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(list(values), config)
    return config


def _quick(base: _Base, values: Sequence[Override]) -> LaunchConfig:
    """The first command line's configuration with the parts that differ set anew."""
    root = base.combination.config
    before, now = base.first_values, tuple(values)
    for key in (override.key_or_group for override in (*before, *now)):
        if key not in base.part_of:
            base.part_of[key] = part_of(root, key)
    made: LaunchConfig = pickle.loads(base.first)
    for part in apart({base.part_of[override.key_or_group] for override in (*before, *now)}):
        ours = [override for override in now if inside(override.key_or_group, part)]
        theirs = [override for override in before if inside(override.key_or_group, part)]
        words = _lines(ours)
        if words == _lines(theirs):
            continue
        if (part, words) not in base.parts:
            base.parts[part, words] = pickle.dumps(converted(root, part, ours))
        put(made, part, pickle.loads(base.parts[part, words]))
    if ill := [problem for _, problem in ill_lists(made)]:
        raise PlanError(ill)
    return made


def _lines(overrides: Iterable[Override]) -> tuple[str, ...]:
    return tuple(str(override.input_line) for override in overrides)
