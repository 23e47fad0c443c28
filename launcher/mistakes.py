"""Hydra's and OmegaConf's errors as one message each: what, where, and what would be right."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from launcher.plan import ROLE_ORDER
from launcher.schema import LaunchConfig

OVERRIDE_HELP = (
    "values with commas, braces, brackets, quotes, = or blanks need the shell's quotes around the "
    "whole override, as in 'flags.all.x={a:1}', and texts with = or blanks inside lists and braces "
    "double quotes of their own, as in 'cluster.srun=[\"--mpi=pmix\"]' (docs/configure.md)"
)


def valid_keys() -> tuple[list[str], list[str]]:
    """(keys with a type, keys under which any name may be added), dotted."""
    fixed: list[str] = []
    free: list[str] = []
    _walk(LaunchConfig, "", fixed, free)
    return fixed, free


def _walk(kind: Any, prefix: str, fixed: list[str], free: list[str]) -> None:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name, hint = f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            _walk(hint, f"{name}.", fixed, free)
        elif typing.get_origin(hint) is dict and dataclasses.is_dataclass(_value_type(hint)):
            for role in ROLE_ORDER:
                _walk(_value_type(hint), f"{name}.{role}.", fixed, free)
        elif typing.get_origin(hint) is dict:
            free.append(name)
        else:
            fixed.append(name)


def _value_type(hint: Any) -> Any:
    return typing.get_args(hint)[1]


def open_keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Keys left at `???`; OmegaConf.missing_keys raises on an interpolation to one of them."""
    for key in map(str, config):
        if OmegaConf.is_interpolation(config, key):
            continue
        if OmegaConf.is_missing(config, key):
            yield f"{prefix}{key}"
        elif isinstance(config[key], DictConfig):
            yield from open_keys(config[key], f"{prefix}{key}.")


@functools.cache
def _annotations(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def unknown_keys(config: Any, kind: Any, prefix: str = "") -> list[str]:
    """Dotted keys of a composed configuration that the schema does not have.

    `+key=value` adds a key to a typed node without a word; here it is found.
    """
    hints = _annotations(kind)
    found: list[str] = []
    for raw_key in config:
        name, hint = f"{prefix}{raw_key}", hints.get(str(raw_key))
        if hint is None:
            found.append(name)
        elif dataclasses.is_dataclass(hint):
            found += unknown_keys(config[raw_key], hint, f"{name}.")
        elif typing.get_origin(hint) is dict and dataclasses.is_dataclass(_value_type(hint)):
            for entry in config[raw_key] or ():
                found += unknown_keys(config[raw_key][entry], _value_type(hint), f"{name}.{entry}.")
    return found


def nearest(key: str) -> str:
    """Up to three valid keys that look like `key`, as text."""
    fixed, free = valid_keys()
    names = fixed + free
    leaf, group = key.rsplit(".", 1)[-1], key.split(".", 1)[0]
    close = difflib.get_close_matches(key, names, n=3, cutoff=0.5)
    close = close or [name for name in names if name.rsplit(".", 1)[-1] == leaf][:3]
    close = close or [name for name in names if name.startswith(f"{group}.")][:8]
    return ", ".join(close or sorted({name.split(".", 1)[0] for name in names}))


def explain(error: Exception, conf_dir: Path) -> str:
    """One message for a configuration error, whatever library raised it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, OverrideParseException):
        said = str(error).splitlines()[0]
        return f"override {error.override}: cannot be read: {said}; {OVERRIDE_HELP}"
    text = "\n".join([str(error), *_causes(error)])
    for pattern, answer in _ANSWERS:
        match = re.search(pattern, text, re.DOTALL)
        if match:
            return answer(match, text, conf_dir)
    reasons = [line.strip() for line in text.splitlines() if line.strip()]
    return "configuration: " + "; ".join(dict.fromkeys(reasons))


def _causes(error: BaseException) -> Iterator[str]:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield str(cause)
        cause = cause.__cause__ or cause.__context__


def _file(text: str, conf_dir: Path) -> str:
    """The YAML file an error speaks of, or the command line."""
    match = re.search(r"In '([\w./-]+)'", text)
    if match and match.group(1) != "config":
        return f"{conf_dir.name}/{match.group(1)}.yaml"
    return "conf/config.yaml or an override"


def _unknown_override(match: re.Match[str], text: str, conf_dir: Path) -> str:
    key = match.group(1)
    if "." not in key:
        return _no_group(match, text, conf_dir)
    _, free = valid_keys()
    home = next((name for name in free if key.startswith(f"{name}.")), None)
    if home is not None:
        return (
            f"override {key}: it brings a name that is not there yet; any name may be added under "
            f"{home}, with a plus in front: write +{key}=..."
        )
    return f"override {key}: unknown key; nearest valid keys: {nearest(key)}"


def _unknown_key(match: re.Match[str], text: str, conf_dir: Path) -> str:
    full = re.search(r"full_key: ([\w.\[\]-]+)", text)
    key = full.group(1) if full else match.group(1)
    return f"{_file(text, conf_dir)}: unknown key {key}; nearest valid keys: {nearest(key)}"


def _wrong_type(match: re.Match[str], text: str, conf_dir: Path) -> str:
    full = re.search(r"full_key: ([\w.\[\]-]+)", text)
    key = full.group(1) if full else "a value"
    return f"{key}: {match.group(0).strip().splitlines()[0]} ({_file(text, conf_dir)})"


def _no_option(match: re.Match[str], _: str, conf_dir: Path) -> str:
    name = match.group(1)
    group, _, option = name.rpartition("/")
    options = sorted(path.stem for path in (conf_dir / group).glob("*.yaml"))
    near = difflib.get_close_matches(option, options, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    if not options:
        groups = sorted(path.name for path in conf_dir.iterdir() if path.is_dir())
        return f"{group or name}: no such group; groups: {', '.join(groups)}"
    return f"{group}={option}: no such option; allowed: {', '.join(options)}{hint}"


def _no_group(match: re.Match[str], _: str, conf_dir: Path) -> str:
    name = match.group(1)
    groups = sorted(path.name for path in conf_dir.iterdir() if path.is_dir())
    near = difflib.get_close_matches(name, groups, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return (
        f"override {name}=...: neither a key nor a group; groups: {', '.join(groups)}{hint}; "
        f"nearest valid keys: {nearest(name)}"
    )


def _there_already(match: re.Match[str], _: str, __: Path) -> str:
    key = match.group(1)
    return f"override +{key}=...: the key has a value already: write it without the +"


def _no_mapping(match: re.Match[str], _: str, __: Path) -> str:
    return f"override {match.group(1)}: allowed: a mapping, as in {match.group(2)}={{name:value}}"


_ANSWERS = (
    (
        r"Error merging override ((?:\+{1,2})?([\w.-]+)=[^\n]*)\n.*Cannot merge DictConfig",
        _no_mapping,
    ),
    (r"An item is already at '([\w.-]+)'", _there_already),
    (r"Could not override '([\w.@/-]+)'\.\s*No match in the defaults list", _no_group),
    (r"Could not override '([\w.@/-]+)'", _unknown_override),
    (r"Could not find '([\w./-]+)'", _no_option),
    (r"In '[\w/]+': Could not (?:find|load) '?([\w./-]+)'?", _no_option),
    (r"Key '([\w.-]+)' (?:is )?not in (?:'\w+'|struct)", _unknown_key),
    (
        r"Value .*? could not be converted to \w+|Cannot (?:assign|convert) [^\n]+|"
        r"[^\n]*is not a valid [^\n]+|Value [^\n]* is (?:incompatible|not)[^\n]+",
        _wrong_type,
    ),
)
