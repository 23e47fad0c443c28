"""The combinations of a sweep: axes multiplied as Hydra does it, or moved together by sweep.zip."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep, Sweep
from hydra.errors import HydraException

from launcher.errors import LauncherError

ZIP = "sweep.zip"
LISTS = frozenset({"workload.concurrency"})
"""Keys whose value is a list: in a sweep a bare number is a list of one."""


@dataclass(frozen=True, slots=True)
class Axes:
    """A sweep's command line, read: each override is one word, or one of several."""

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    """(key, its words) in the order given; one word for what does not vary."""
    zips: tuple[tuple[str, ...], ...] = ()
    read: Mapping[str, Override] = field(default_factory=dict, compare=False)
    """Words that stand for one value, as Hydra's parser has read them."""

    @property
    def swept(self) -> tuple[str, ...]:
        """Keys with several values."""
        return tuple(key for key, words in self.columns if len(words) > 1)

    def fixed(self) -> list[str]:
        """The overrides that all combinations share."""
        return [words[0] for _, words in self.columns if len(words) == 1]

    def combinations(self) -> list[tuple[str, ...]]:
        """Every combination's overrides, the last axis moving fastest.

        LauncherError for zipped axes that are none, or that are not of one length.
        """
        held = _checked_zips(self)
        steps: list[list[tuple[tuple[int, str], ...]]] = []
        done: set[str] = set()
        for place, (key, words) in enumerate(self.columns):
            if key in done:
                continue
            together = held.get(key)
            if together is None:
                steps.append([((place, word),) for word in words])
                continue
            done |= set(together)
            members = [(p, ws) for p, (name, ws) in enumerate(self.columns) if name in together]
            rows = zip(*(words for _, words in members), strict=True)
            steps.append(
                [
                    tuple((p, word) for (p, _), word in zip(members, row, strict=True))
                    for row in rows
                ]
            )
        made = []
        for chosen in itertools.product(*steps):
            placed = sorted(itertools.chain.from_iterable(chosen))
            made.append(tuple(word for _, word in placed))
        return made


def read_axes(words: Sequence[str], kept: Mapping[str, Any] | None = None) -> Axes:
    """The axes of a command line without its -m; raises HydraException for words of no grammar.

    A glob over a group's options needs an initialised Hydra. `kept` are axes that a configuration
    file holds (hydra.sweeper.params); the command line wins.
    """
    hydra = GlobalHydra.instance()
    parser = OverridesParser.create(hydra.config_loader() if hydra.is_initialized() else None)
    given = parser.parse_overrides(list(words))
    names = {override.key_or_group for override in given}
    for key, value in (kept or {}).items():
        (override,) = parser.parse_overrides([f"{key}={value}"])
        if override.key_or_group not in names:
            given.append(override)
    zips: tuple[tuple[str, ...], ...] = ()
    for override in given:
        if override.key_or_group == ZIP and not override.is_sweep_override():
            zips = zip_value(override.value())
    single = {str(item.input_line): item for item in given if not item.is_sweep_override()}
    return Axes(tuple((item.key_or_group, _words(item)) for item in given), zips, single)


def zip_value(value: Any) -> tuple[tuple[str, ...], ...]:
    """`sweep.zip` as keys; LauncherError unless it is a list of lists of keys."""
    rows = value if isinstance(value, list) else [value]
    good = all(
        isinstance(row, list) and len(row) > 1 and all(isinstance(k, str) for k in row)
        for row in rows
    )
    if not good:
        raise LauncherError(
            f"{ZIP}={value}: allowed: a list of lists of at least two axes, as in "
            f"{ZIP}=[[topology,workload.concurrency]]"
        )
    return tuple(tuple(key.lstrip("+~") for key in row) for row in rows)


def _words(override: Override) -> tuple[str, ...]:
    if not override.is_sweep_override():
        value = override.value()
        if override.key_or_group in LISTS and isinstance(value, int):
            return (f"{override.get_key_element()}=[{value}]",)
        return (str(override.input_line),)
    if not override.is_discrete_sweep():
        raise HydraException(
            f"override {override.input_line}: an interval is no list of values: name them, or use "
            "range(start,stop,step)"
        )
    _plain_choices(override)
    key = override.get_key_element()
    values = list(override.sweep_string_iterator())
    if override.key_or_group in LISTS:
        values = [value if value.startswith("[") else f"[{value}]" for value in values]
    return tuple(f"{key}={value}" for value in values)


def _plain_choices(override: Override) -> None:
    """HydraException for a sweep inside a list of values, which Hydra reads and cannot run."""
    given = override.value()
    if not isinstance(given, ChoiceSweep):
        return
    inside = [item for item in given.list if isinstance(item, Sweep)]
    if not inside:
        return
    flat = [
        value
        for item in given.list
        for value in (item.range() if isinstance(item, RangeSweep) else [item])
    ]
    plain = all(isinstance(value, int | float | str) for value in flat)
    remedy = f": {override.get_key_element()}={','.join(map(str, flat))}" if plain else ""
    raise HydraException(
        f"override {override.input_line}: a range(...) or choice(...) has to stand alone: write "
        f"the values out{remedy}"
    )


def _checked_zips(axes: Axes) -> dict[str, tuple[str, ...]]:
    """Key -> the axes it moves with."""
    lengths = {key: len(words) for key, words in axes.columns}
    held: dict[str, tuple[str, ...]] = {}
    for group in axes.zips:
        for key in group:
            if key not in axes.swept:
                raise LauncherError(
                    f"{ZIP}: {key} is no axis of this sweep: give it several values, or leave it "
                    f"out; axes: {', '.join(axes.swept) or 'none'}"
                )
            if key in held:
                raise LauncherError(f"{ZIP}: {key} is named more than once")
            held[key] = group
        if len({lengths[key] for key in group}) > 1:
            told = ", ".join(f"{key} has {lengths[key]}" for key in group)
            raise LauncherError(f"{ZIP}: axes that move together need as many values: {told}")
    return held
