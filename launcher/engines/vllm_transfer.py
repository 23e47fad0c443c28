"""kv-transfer-config checked against the release: keys, connector, roles, NIXL's own settings.

What a role needs of it (a connector, its own kv_role) is launcher/known_bad/connector.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.engines.vllm_flags import class_problems
from launcher.options.layers import Written, merged, place_of, unreadable
from launcher.options.table import Table, near
from launcher.options.values import json_value
from launcher.schema import LaunchConfig

FLAG = "kv-transfer-config"
CLASS = "KVTransferConfig"
EXTRA = "kv_connector_extra_config"
NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
MISSPELT = 0.75


def transfer_problems(config: LaunchConfig, table: Table) -> Iterator[str]:
    """What vLLM refuses at start-up, or takes without a word and then does not transfer."""
    if FLAG in config.flags.unchecked:
        return
    for role in config.topology.roles:
        entry = merged(config, role).get(FLAG)
        if entry is None or unreadable(config, role, FLAG):
            continue
        value = _mapping(entry)
        if value is None:
            told = _json(entry.value)  # what is no JSON at all is told with the other flags
            if told is not None and not isinstance(told, bool):
                yield f"{entry.where}={entry.value!r}: allowed: a mapping (JSON)"
            continue
        yield from _placed(config, role, entry, value, table)


def _json(value: Any) -> Any:
    """What JSON text says; None for other text, anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json_value(value)
    except ValueError:
        return None


def _mapping(entry: Written) -> Mapping[str, Any] | None:
    value = _json(entry.value)
    return value if isinstance(value, Mapping) else None


def _placed(
    config: LaunchConfig, role: str, entry: Written, value: Mapping[str, Any], table: Table
) -> Iterator[str]:
    """Problems of keys, each under the layer that wrote it."""
    for key, item in value.items():
        where = place_of(config, role, entry.name, key)
        single = class_problems(table, CLASS, {key: item}, where.rpartition(".")[0], f"--{FLAG}")
        yield from single
    yield from _connector(value, place_of(config, role, entry.name, "kv_connector"), table)
    extra = value.get(EXTRA)
    if isinstance(extra, Mapping):
        where = place_of(config, role, entry.name, EXTRA)
        if value.get("kv_connector") in NIXL:
            yield from _nixl(extra, where, table, misspelt=True)
        if value.get("kv_connector") == "MultiConnector":
            yield from _inner(extra, where, table)


def _connector(value: Mapping[str, Any], where: str, table: Table) -> Iterator[str]:
    """The connector's name, unless it comes from a module of the site's own."""
    name, known = value.get("kv_connector"), table.names("connectors")
    if not isinstance(name, str) or name in known or value.get("kv_connector_module_path"):
        return
    told = f"{where}={name!r}: {table.program} {table.release} has no such connector"
    elsewhere = table.elsewhere("connectors", name)
    close = near(name, known)
    hint = f"; did you mean {close}?" if close else ""
    yield (
        f"{told}{': ' + elsewhere if elsewhere else ''}{hint} (allowed: {', '.join(known)}; one of "
        "your own needs kv_connector_module_path)"
    )


def _inner(extra: Mapping[str, Any], where: str, table: Table) -> Iterator[str]:
    """The connectors inside a MultiConnector: each is a kv-transfer-config of its own."""
    inside = extra.get("connectors")
    if not isinstance(inside, list) or not inside:
        yield f"{where}.connectors={inside!r}: allowed: a list of kv-transfer-configs, one or more"
        return
    for index, value in enumerate(inside):
        here = f"{where}.connectors[{index}]"
        if not isinstance(value, Mapping):
            yield f"{here}={value!r}: allowed: a mapping with kv_connector and kv_role"
            continue
        yield from class_problems(table, CLASS, value, here, f"--{FLAG}")
        yield from _connector(value, f"{here}.kv_connector", table)
        nested = value.get(EXTRA)
        if value.get("kv_connector") in NIXL and isinstance(nested, Mapping):
            yield from _nixl(nested, f"{here}.{EXTRA}", table, misspelt=True)
        if "kv_role" not in value:
            yield f"{here}: kv_role is not set; allowed: kv_producer, kv_consumer, kv_both"


def _nixl(extra: Mapping[str, Any], where: str, table: Table, *, misspelt: bool) -> Iterator[str]:
    """NIXL's settings: misspelt ones and wrong types (problems), or names it never reads."""
    known = table.names("nixl")
    for key, value in extra.items():
        spec = known.get(key)
        close = near(key, known, MISSPELT)
        if spec is None and bool(close) == misspelt:
            hint = f"did you mean {close}?" if close else f"keys: {', '.join(known)}"
            yield (
                f"{where}.{key}={value!r}: {table.program} {table.release}'s NIXL connector reads "
                f"no such key and ignores it; {hint}"
            )
        elif spec is not None and misspelt and not _alike(spec.get("default"), value):
            yield f"{where}.{key}={value!r}: allowed: {_told(spec['default'])}"


def _alike(default: Any, value: Any) -> bool:
    """Whether a setting has the type of its default."""
    if default is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float)) and value > 0
    return isinstance(value, type(default))


def _told(default: Any) -> str:
    if isinstance(default, bool):
        return f"true or false (default {str(default).lower()})"
    if isinstance(default, (int, float)):
        return f"a number above 0 (default {default})"
    return f"a list, as in {default}" if isinstance(default, list) else "text"


def transfer_advice(config: LaunchConfig, table: Table) -> Iterator[str]:
    """Settings of the NIXL connector that nothing reads and that look like no other."""
    for role in config.topology.roles:
        entry = merged(config, role).get(FLAG)
        value = (_mapping(entry) if entry else None) or {}
        extra = value.get(EXTRA)
        if value.get("kv_connector") in NIXL and isinstance(extra, Mapping) and entry:
            where = place_of(config, role, entry.name, EXTRA)
            yield from _nixl(extra, where, table, misspelt=False)
