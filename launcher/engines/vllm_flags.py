"""vLLM's flags checked against the release's own parser, before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.options.layers import FORM, Written, all_layers, dashed, entries, merged
from launcher.options.table import Spec, Table, near
from launcher.options.values import allowed, field_refusals, json_value, refusal
from launcher.schema import LaunchConfig

TOLD_ELSEWHERE = (("gdn-prefill-backend", "auto"),)
"""Refused by launcher/known_bad/, which says what to do instead."""
INVERSE: Spec = {"kind": "switch"}


@dataclass(frozen=True, slots=True)
class Flag:
    """A written name, resolved: the option it means and what it takes."""

    canonical: str
    spec: Spec


def resolved(table: Table, name: str) -> Flag | None:
    """The option that `--name` means in this release; None where its parser has none of it."""
    spec = table.spec("flags", name)
    if spec is not None:
        return Flag(name, spec)
    for canonical, spec in table.names("flags").items():
        if name in spec.get("also", ()):
            return Flag(canonical, spec)
        negative = spec["kind"] == "bool" and name == f"no-{canonical}"
        if name in spec.get("inverse", ()) or negative:
            return Flag(canonical, INVERSE)
    return None


def canonical(table: Table, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags under the options they mean: `no-x: true` as `x: false`, a second name as the first.

    What the release does not know keeps its name; the order is kept.
    """
    found: dict[str, Any] = {}
    for raw, value in flags.items():
        name = dashed(raw)
        flag = resolved(table, name)
        off = flag is not None and flag.spec is INVERSE
        if flag is None or (off and not isinstance(value, bool)):
            found[name] = value
        else:
            found[flag.canonical] = (not value) if off else value
    return found


def owned_alias(table: Table, name: str, owned: frozenset[str]) -> str:
    """The launcher's own flag that an unusual spelling means: dp, PORT, -tp, host.x; else ""."""
    bare = name.lstrip("-").lower().partition(".")[0]
    plain = bare.removeprefix("no-")
    names = table.names("flags")
    for canonical in sorted(owned & set(names)):
        spec = names[canonical]
        shorts = {short.lstrip("-") for short in spec.get("short", ())}
        if plain in {canonical, *shorts, *spec.get("also", ()), *spec.get("inverse", ())}:
            return canonical
    full = [known for known in names if known.startswith(bare)]
    return full[0] if len(full) == 1 and full[0] in owned else ""


def name_problem(table: Table, entry: Written) -> str:
    """Why the release has no such flag: misspelt, short, abbreviated, dropped, or not there yet."""
    name, names = entry.name, table.names("flags")
    told = f"{entry.where}={entry.value!r}: {table.program} {table.release} has no flag --{name}"
    for canonical, spec in names.items():
        if f"-{name}" in spec.get("short", ()):
            return f"{told}: -{name} is the short form of {canonical}, write that"
    positive = resolved(table, name.removeprefix("no-"))
    if name.startswith("no-") and positive is not None:
        takes = allowed(positive.spec)
        return f"{told}: {positive.canonical} is no switch and has no --no- form; it takes {takes}"
    if re.fullmatch("O[0-9]?", name):
        level = name[1:] or entry.value
        return (
            f"{told}: -O is the short form of optimization-level, write optimization-level={level}"
        )
    elsewhere = table.elsewhere("flags", name)
    full = [known for known in names if known.startswith(name)]
    if elsewhere:
        close = near(name, _spellings(names), 0.85)
        hint = f"; the nearest it has is {close}" if close else ""
        return f"{told}: {elsewhere}{hint}; remove it, or set engine.release to the one you run"
    close = full[0] if len(full) == 1 else near(name.lower(), _spellings(names))
    hint = f"did you mean {close}?" if close else "nothing is named like it"
    return f"{told}; {hint} (a custom build's own flag: list it in flags.unchecked)"


def _spellings(names: Mapping[str, Spec]) -> list[str]:
    found: list[str] = []
    for canonical, spec in names.items():
        found += [canonical, *spec.get("also", ()), *spec.get("inverse", ())]
    return found


def flag_problems(config: LaunchConfig, table: Table, owned: frozenset[str]) -> Iterator[str]:
    """What the release's parser would refuse, of every role's flags but the launcher's own."""
    for entry in looked_at(config):
        if entry.name in owned or not FORM.fullmatch(entry.name):
            continue
        if owned_alias(table, entry.name, owned):
            continue
        yield from entry_problems(table, entry)
    for role in config.topology.roles:
        yield from twice(table, merged(config, role))
    yield from nothing_removed(config, table)


def entry_problems(table: Table, entry: Written) -> Iterator[str]:
    """Why the release's parser would refuse one flag; kv-transfer-config's keys have their own
    check (vllm_transfer.py)."""
    flag = resolved(table, entry.name)
    if flag is None:
        yield name_problem(table, entry)
        return
    if (flag.canonical, entry.value) in TOLD_ELSEWHERE:
        return
    said = refusal(flag.spec, entry.value)
    if said and flag.spec is INVERSE and entry.value is False:
        said = f"allowed: true; the same as {flag.canonical}: true, write that"
    if said:
        yield f"{entry.where}={entry.value!r}: {said} ({table.program} {table.release})"
    elif "config" in flag.spec and flag.canonical != "kv-transfer-config":
        yield from json_problems(table, flag, entry)


def looked_at(config: LaunchConfig) -> Iterator[Written]:
    """Every flag that a role is started with, and those written for roles not started here."""
    free = {name.replace("_", "-") for name in config.flags.unchecked}
    seen: set[tuple[str, str]] = set()
    for role in dict.fromkeys([*config.topology.roles, *config.flags.roles]):
        started = role in config.topology.roles
        for entry in merged(config, role).values():
            new = (entry.where, repr(entry.value)) not in seen
            if entry.name not in free and new:
                seen.add((entry.where, repr(entry.value)))
                if started or entry.where.startswith(f"flags.roles.{role}."):
                    yield entry


def json_problems(table: Table, flag: Flag, entry: Written) -> Iterator[str]:
    """What the config class behind a JSON flag would refuse: keys, choices, types."""
    value = entry.value
    if isinstance(value, str):
        if flag.spec.get("none") and value in ("", "None"):
            return
        value = json_value(value)
    if not isinstance(value, Mapping):
        yield f"{entry.where}={entry.value!r}: allowed: a mapping (JSON)"
        return
    yield from class_problems(table, flag.spec["config"], value, entry.where, f"--{flag.canonical}")


def class_problems(
    table: Table, config_class: str, value: Mapping[str, Any], where: str, what: str
) -> Iterator[str]:
    """What a config class of the release would refuse of a mapping, and of mappings inside it."""
    fields = table.names("configs", config_class)
    if not fields:
        return
    for key, said in field_refusals(fields, value, f"{what} of {table.program} {table.release}"):
        yield f"{where}.{key}={value[key]!r}: {said}"
    for key, item in value.items():
        inner = fields.get(key, {}).get("config")
        if inner and isinstance(item, Mapping):
            yield from class_problems(table, inner, item, f"{where}.{key}", f"{what}.{key}")


def twice(table: Table, flags: Mapping[str, Written]) -> Iterator[str]:
    """One option reached by two spellings: only the later one would count, without a word."""
    first: dict[str, Written] = {}
    for entry in flags.values():
        flag = resolved(table, entry.name)
        if flag is None:
            continue
        if flag.canonical in first:
            other = first[flag.canonical]
            yield (
                f"{entry.where}={entry.value!r}: the same flag as {other.where}={other.value!r} "
                f"({flag.canonical}); keep one spelling"
            )
        first[flag.canonical] = entry


def nothing_removed(config: LaunchConfig, table: Table) -> Iterator[str]:
    """A null that takes a flag away must name one that some release has, or a layer sets."""
    written = {
        entry.name
        for layer, flags in all_layers(config).items()
        for entry in entries(layer, flags)
        if entry.value is not None
    }
    for layer, flags in all_layers(config).items():
        for entry in entries(layer, flags):
            known = resolved(table, entry.name) or table.elsewhere("flags", entry.name)
            if entry.value is None and not known and entry.name not in written:
                close = near(entry.name, _spellings(table.names("flags")))
                hint = f"; did you mean {close}?" if close else ""
                yield f"{entry.where}=null: takes away a flag that no release has{hint}"


def deprecated(config: LaunchConfig, table: Table) -> Iterator[str]:
    """Flags that the release still takes but announces the end of."""
    for entry in looked_at(config):
        flag = resolved(table, entry.name)
        said = flag.spec.get("deprecated") if flag else None
        if flag and said:
            text = f": {said}" if isinstance(said, str) else ""
            yield (
                f"{entry.where}: {table.program} {table.release} marks --{flag.canonical} as "
                f"deprecated{text}"
            )
