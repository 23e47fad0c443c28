"""Everything wrong with a command line: its overrides, its files, and every rule, in one list."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from launcher.composing import is_multirun
from launcher.conf_files import dotted, leaves
from launcher.errors import LauncherError
from launcher.model_files import fill_facts
from launcher.schema import LaunchConfig
from launcher.site import settle_paths, site_problems, surroundings
from launcher.spelling import changed_overrides, may_change
from launcher.sweep_axes import read_axes
from launcher.tolerant import Tolerant, compose_tolerantly
from launcher.validate import Findings, find

KEY = re.compile(r"(?:override )?\+{0,2}([a-z_]+(?:\.[\w-]+)*)")


def diagnose(words: Sequence[str], conf_dir: Path, python: str) -> tuple[str, ...]:
    """Every problem of a command line; those of one combination of a sweep are tagged with it."""
    overrides = [word for word in words if not word.startswith("-")]
    with initialize_config_dir(str(conf_dir), version_base=None):
        swept = any(map(is_multirun, words))
        combinations = _combinations(overrides) if swept else [overrides]
        found = {
            name: _problems(compose_tolerantly(entry, conf_dir), python)
            for name, entry in zip(told_apart(combinations), combinations, strict=True)
        }
    changed = changed_overrides(overrides)
    return tuple(dict.fromkeys([*changed, *shared_first(found)]))


def suspicious(words: Sequence[str], conf_dir: Path) -> bool:
    """Whether a command line that composed may still hide a mistake from Hydra and OmegaConf.

    A key given twice keeps the last value only; `???` in a file over a field with a default is
    dropped; a bare number where a text is meant loses its spelling. Cheap: reads the files' text.
    """
    keys = [word.split("=", 1)[0].lstrip("+~") for word in words if not word.startswith("-")]
    if len(keys) != len(set(keys)) or any(changed_overrides(words)):
        return True
    texts = (path.read_text(encoding="utf-8") for path in conf_dir.rglob("*.yaml"))
    return any("???" in text or may_change(text) for text in texts)


def told_apart(combinations: Sequence[Sequence[str]]) -> list[str]:
    """What each of several different combinations has that not all of them have."""
    common = set(combinations[0]).intersection(*combinations) if len(combinations) > 1 else set()
    return [" ".join(word for word in entry if word not in common) for entry in combinations]


def shared_first(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Texts of several combinations: once and bare where all have it, else with the combination."""
    for text in dict.fromkeys(itertools.chain.from_iterable(found.values())):
        having = [name for name, texts in found.items() if text in texts]
        if len(having) == len(found):
            yield text
        else:
            yield from (f"{text} [{name}]" for name in having)


def diagnose_each(words: Sequence[str], conf_dir: Path, python: str) -> tuple[str, ...]:
    """Every problem of one combination's overrides."""
    with initialize_config_dir(str(conf_dir), version_base=None):
        return tuple(_problems(compose_tolerantly(words, conf_dir), python))


def _combinations(overrides: list[str]) -> list[list[str]]:
    """Each combination of a sweep; unreadable overrides stay in all of them, to be told."""
    parser = OverridesParser.create()
    good, bad = [], []
    for word in overrides:
        try:
            parser.parse_override(word)
        except HydraException:
            bad.append(word)
        else:
            good.append(word)
    try:
        return [[*entry, *bad] for entry in read_axes(good).combinations()]
    except (HydraException, LauncherError):
        return [overrides]


def _problems(made: Tolerant, python: str) -> list[str]:
    problems = list(made.problems)
    if made.config is not None:
        ruled = judged(made.config, python).problems
        problems += [text for text in ruled if not _known(text, made.told)]
    return list(dict.fromkeys(_placed(text, made.origins) for text in problems))


def judged(config: LaunchConfig, python: str) -> Findings:
    """What every rule says of a composed configuration, and the site where it would be submitted.

    Makes its relative paths absolute and fills the model's open facts on the way.
    """
    settle_paths(config)
    fill_facts(config)
    findings = find(config)
    problems = list(findings.problems)
    if config.check == "strict":
        problems += [f"{text} (a warning; check=strict stops at it)" for text in findings.warnings]
    if config.dry_run.lower() == "false":
        problems += site_problems(config, surroundings(config, python))
    return Findings(tuple(problems), findings.warnings)


def placed(
    problems: Iterable[str], overrides: Sequence[str], labels: Mapping[str, str], conf_dir: Path
) -> list[str]:
    """Problems of a configuration that composed, with the override or the file of each value."""
    words = {word.split("=", 1)[0].lstrip("+~"): word for word in overrides}
    told = []
    for text in problems:
        key = _key(text)
        group = key.partition(".")[0]
        path = conf_dir / group / f"{labels.get(group, '')}.yaml"
        origins = {name: f"override {word}" for name, word in words.items()}
        shown = f"{conf_dir.name}/{group}/{path.name}"
        above = _nearest(key, words)
        new = above and key[len(above) + 1 :].partition(".")[0] in words[above].partition("=")[2]
        if key and not new and path.is_file() and key in _keys_of(path, group):
            origins[key] = shown
        told.append(_placed(text, origins))
    return list(dict.fromkeys(told))


def _nearest(key: str, names: Iterable[str]) -> str:
    """The longest of dotted names that is `key` or above it, "" where none is."""
    return max((name for name in names if f"{key}.".startswith(f"{name}.")), key=len, default="")


@functools.cache
def _keys_of(path: Path, group: str) -> frozenset[str]:
    """Every dotted key of a file that composed."""
    return frozenset(
        key for leaf in leaves(path, group, "") for key in dotted(leaf.value, leaf.key)
    )


def _key(text: str) -> str:
    """The key that a problem begins with."""
    match = KEY.match(text)
    return match.group(1) if match else ""


def _known(text: str, told: Iterable[str]) -> bool:
    """Whether a rule speaks of a value that was told already and only stands in."""
    key = _key(text)
    return any(key == name or key.startswith(f"{name}.") for name in told)


def _placed(text: str, origins: Mapping[str, str]) -> str:
    """A problem with the file or the override its value comes from, where that is known."""
    if text.startswith(("override ", "conf/")):
        return text
    key = _key(text)
    while key and key not in origins:
        key = key.rpartition(".")[0]
    where = origins.get(key, "")
    typed = where.removeprefix("override ")
    return text if not where or typed in text else f"{text} [{where}]"
