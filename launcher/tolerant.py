"""A configuration composed with its mistakes left out, so that all of them can be told.

Hydra and OmegaConf stop at the first bad override. Here every file's values and every override
are laid onto the schema one by one: what does not fit is told and left out, the rest composes.
Only run after the ordinary composition, or a rule, has found something wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

from launcher.conf_files import chosen_files, dotted, leaves, open_in
from launcher.kinds import expected, free_value, hints, ill_lists, stand_in
from launcher.mistakes import OVERRIDE_HELP, explain, nearest, open_keys, unknown_keys
from launcher.schema import LaunchConfig, RoleConfig
from launcher.spelling import changed_in_file

ROLE = re.compile(r"topology\.roles\.([^.]+)\.")
LIBRARY_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    ValueError,
    AttributeError,
    TypeError,
    AssertionError,
)


@dataclass(slots=True)
class Tolerant:
    """What composed, and what was wrong on the way."""

    config: LaunchConfig | None = None
    problems: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    """Keys whose value is known to be wrong: what rules say of their stand-ins is no news."""
    origins: dict[str, str] = field(default_factory=dict)
    """Dotted key -> the file or the override that decides it."""


def compose_tolerantly(words: Sequence[str], conf_dir: Path) -> Tolerant:
    """The configuration of one command line without its mistakes. Hydra must be initialised."""
    made = Tolerant()
    groups, values = _sorted_overrides(_parsed(words, made), made, conf_dir)
    config = OmegaConf.structured(LaunchConfig)
    open_values: dict[str, str] = {}
    try:
        files = chosen_files(conf_dir, groups)
    except LIBRARY_ERRORS as error:
        made.problems.append(explain(error, conf_dir))
        files = chosen_files(conf_dir, [])
    for path, package in files:
        _lay_file(path, package, config, made, open_values, conf_dir)
    OmegaConf.set_struct(config, True)
    for override in values:
        _lay_override(override, config, made, open_values, conf_dir)
    OmegaConf.set_struct(config, False)
    _drop_unknown(config, made)
    _settle_interpolations(config, made)
    _settle_open(config, made, open_values)
    try:
        typed: Any = OmegaConf.to_object(config)
        made.config = _without_ill_lists(typed, made)
    except LIBRARY_ERRORS as error:
        made.problems.append(explain(error, conf_dir))
    return made


def _without_ill_lists(config: LaunchConfig, made: Tolerant) -> LaunchConfig:
    """Lists with items of another kind told and filled."""
    known = hints()
    for key, problem in ill_lists(config):
        made.problems.append(problem)
        made.told.add(key)
        node: Any = config
        *path, name = key.split(".")
        for part in path:
            node = getattr(node, part)
        setattr(node, name, stand_in(known[key]))
    return config


def _parsed(words: Sequence[str], made: Tolerant) -> Iterator[Override]:
    """Overrides that can be read; the others, and keys given twice, are told."""
    parser = OverridesParser.create()
    keys = Counter(word.split("=", 1)[0].lstrip("+~") for word in words)
    made.problems += [
        f"{key} is given more than once: give it once" for key, count in keys.items() if count > 1
    ]
    for word in words:
        try:
            override = parser.parse_override(word)
            if not override.key_or_group:
                raise OverrideParseException(word, f"no key before the = of '{word}'")
            yield override
        except HydraException as error:
            said = str(error).splitlines()[0]
            made.problems.append(f"override {word}: cannot be read: {said}; {OVERRIDE_HELP}")
            made.told.add(word.split("=", 1)[0].lstrip("+~"))


def _sorted_overrides(
    overrides: Iterator[Override], made: Tolerant, conf_dir: Path
) -> tuple[list[str], list[Override]]:
    """(group choices that exist, overrides of single values); other choices are told."""
    groups: list[str] = []
    values: list[Override] = []
    for override in overrides:
        name = override.key_or_group
        if name == "hydra" or name.startswith(("hydra.", "hydra/")):
            continue
        if override.is_sweep_override():
            made.problems.append(
                f"override {override.input_line}: several values make a sweep: add -m, or write a "
                f"list as {name}=[...] and text with commas in quotes"
            )
            made.told.add(name)
        elif not (conf_dir / name).is_dir() or isinstance(override.value(), dict):
            values.append(override)
        elif problem := _bad_option(name, override, conf_dir):
            made.problems.append(problem)
        else:
            groups.append(str(override.input_line))
    return groups, values


def _bad_option(group: str, override: Override, conf_dir: Path) -> str | None:
    value = override.value()
    if override.is_delete() or (value is None and group == "experiment"):
        return None
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str):
            options = sorted(path.stem for path in (conf_dir / group).glob("*.yaml"))
            return (
                f"override {override.input_line}: a group's option must be a string; allowed: "
                f"{', '.join(options)}"
            )
        if not (conf_dir / group / f"{name}.yaml").is_file():
            return explain(ValueError(f"Could not find '{group}/{name}'"), conf_dir)
    return None


def _lay_file(
    path: Path,
    package: str,
    config: DictConfig,
    made: Tolerant,
    open_values: dict[str, str],
    conf_dir: Path,
) -> None:
    shown = f"{conf_dir.name}/{path.relative_to(conf_dir)}"
    try:
        found = list(leaves(path, package, shown))
    except (yaml.YAMLError, OmegaConfBaseException, OSError) as error:
        made.problems.append(explain(error, conf_dir))
        return
    known, text = hints(), path.read_text(encoding="utf-8")
    for leaf in found:
        if leaf.value == "???":
            open_values[leaf.key] = shown
            continue
        for key in open_in(leaf.value, leaf.key):
            open_values[key] = shown
        for changed in changed_in_file(text, leaf.key, leaf.value):
            made.problems.append(f"{shown}: {changed}")
        problem = _laid(config, leaf.key, leaf.value, known)
        if problem is not None:
            made.problems.append(f"{shown}: {problem}")
            made.told.add(leaf.key)
            continue
        for key in dotted(leaf.value, leaf.key):
            made.origins[key] = shown
            if key != leaf.key or key not in open_values:
                continue
            del open_values[key]


def _laid(config: DictConfig, key: str, value: Any, known: dict[str, Any]) -> str | None:
    """One value put in its place; else what is wrong with it."""
    try:
        if role := ROLE.match(key):
            config.topology.roles.setdefault(role.group(1), RoleConfig())
        OmegaConf.update(config, key, value, merge=True)
    except LIBRARY_ERRORS:
        if key not in known:
            return f"unknown key {key}; nearest valid keys: {nearest(key)}"
        return wrong_kind(key, value, known[key])
    return None


def wrong_kind(key: str, value: Any, hint: Any) -> str:
    """A value of the wrong type: what it is, and what the key takes."""
    shown = "null" if value is None else value
    return f"{key}={shown}: allowed: {expected(hint)}"


def _lay_override(
    override: Override,
    config: DictConfig,
    made: Tolerant,
    open_values: dict[str, str],
    conf_dir: Path,
) -> None:
    key, known = override.key_or_group, hints()
    role = ROLE.match(key)
    if override.is_add() and role and role.group(1) not in config.topology.roles:
        made.problems.append(
            f"override {override.input_line}: the topology has no role {role.group(1)}, only "
            f"{', '.join(map(str, config.topology.roles))}; other roles need a file of "
            "conf/topology"
        )
        made.told.add(key)
        return
    try:
        ConfigLoaderImpl._apply_overrides_to_config([override], config)
    except LIBRARY_ERRORS as error:
        plain = not (override.is_add() or override.is_delete() or override.package)
        if plain and key in known:
            allowed = expected(known[key])
            made.problems.append(f"override {override.input_line}: allowed: {allowed}")
        elif free_value(key) not in (None, Any) and _new_or_plain(override, config):
            allowed = expected(free_value(key))
            made.problems.append(f"override {override.input_line}: allowed: {allowed}")
        else:
            made.problems.append(explain(error, conf_dir))
        made.told.add(key)
        return
    for name in dotted(override.value(), key):
        made.origins[name] = f"override {override.input_line}"
    for name in [name for name in open_values if name == key or name.startswith(f"{key}.")]:
        del open_values[name]


def _new_or_plain(override: Override, config: DictConfig) -> bool:
    """Whether a refused override could stand where it is written, were its value another."""
    there = OmegaConf.select(config, override.key_or_group, throw_on_missing=False) is not None
    return there != override.is_add() and not override.is_delete()


def _drop_unknown(config: DictConfig, made: Tolerant) -> None:
    for key in unknown_keys(config, LaunchConfig):
        made.problems.append(f"{key}: unknown key; nearest valid keys: {nearest(key)}")
        made.told.add(key)
        parent, _, name = key.rpartition(".")
        node: Any = OmegaConf.select(config, parent) if parent else config
        with open_dict(node):
            del node[name]


def _settle_open(config: DictConfig, made: Tolerant, open_values: dict[str, str]) -> None:
    """Open `???` told and filled, those too that OmegaConf drops over a field with a default."""
    known = hints()
    for key in sorted({*open_keys(config), *open_values} - made.told):
        made.problems.append(f"{key} is not set (???): give it a value, as in {key}=...")
        made.told.add(key)
        if key in open_values:
            made.origins.setdefault(key, open_values[key])
    for key in open_keys(config):
        OmegaConf.update(config, key, stand_in(known.get(key, str)), force_add=True)


def _settle_interpolations(config: DictConfig, made: Tolerant) -> None:
    """References that lead nowhere told and filled."""
    known = hints()
    for key, hint in known.items():
        parent, _, name = key.rpartition(".")
        node: Any = OmegaConf.select(config, parent) if parent else config
        if not isinstance(node, DictConfig) or not OmegaConf.is_interpolation(node, name):
            continue
        text = OmegaConf.to_container(node, resolve=False)
        raw = text[name] if isinstance(text, dict) else ""
        try:
            OmegaConf.select(config, key, throw_on_missing=True)
        except InterpolationToMissingValueError:
            made.problems.append(f"{key}={raw}: refers to a key that is not set")
        except LIBRARY_ERRORS as error:
            said = str(error).splitlines()[0]
            made.problems.append(f"{key}={raw}: {said}; allowed: {expected(hint)}")
        else:
            continue
        made.told.add(key)
        OmegaConf.update(config, key, stand_in(hint), force_add=True)
