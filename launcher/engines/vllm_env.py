"""VLLM_* variables checked against the release's envs.py: names, and values as it reads them."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.options.layers import env_layers
from launcher.options.table import Spec, Table, near
from launcher.schema import LaunchConfig

PREFIX = "VLLM_"
MISSPELT = 0.87
"""How alike an unknown name must be to a known one to be taken for a slip of the pen."""
FALSE = ("", "0", "false", "no", "off", "n", "f")


def env_problems(config: LaunchConfig, table: Table) -> Iterator[str]:
    """Misspelt and dropped variables, and values that vLLM would refuse or read as the opposite."""
    for where, name, value in written(config):
        spec = table.spec("env", name)
        if spec is not None:
            said = value_problem(spec, value)
            if said:
                yield f"{where}={value!r}: {said} ({table.program} {table.release} envs.py)"
            continue
        elsewhere = table.elsewhere("env", name)
        close = like(table, name)
        told = f"{where}={value!r}: {table.program} {table.release} reads no variable {name}"
        if elsewhere:
            hint = f"; the nearest it reads is {close}" if close else ""
            yield f"{told}: {elsewhere}{hint}; remove it"
        elif close:
            yield f"{told}; did you mean {close}? (a plug-in's own: list it in flags.unchecked)"


def env_advice(config: LaunchConfig, table: Table) -> Iterator[str]:
    """Variables that nothing in the release reads: a plug-in's own, or without effect."""
    for where, name, value in written(config):
        unknown = table.spec("env", name) is None and not table.elsewhere("env", name)
        if unknown and not like(table, name):
            yield (
                f"{where}={value!r}: {table.program} {table.release} reads no such variable; "
                "without a plug-in that does it has no effect (list it in flags.unchecked)"
            )


def written(config: LaunchConfig) -> Iterator[tuple[str, str, str]]:
    """(key, name, value) of every VLLM_ variable that a process gets; overridden ones left out."""
    final = {name: layer for layer, env in env_layers(config) for name in env}
    for layer, env in env_layers(config):
        for name, value in env.items():
            prefixed = name.upper().startswith(PREFIX)
            if prefixed and final[name] == layer and name not in config.flags.unchecked:
                yield f"{layer}.{name}", name, str(value)


def like(table: Table, name: str) -> str:
    """The variable that a misspelt name means, "" where it looks like a name of its own."""
    names = table.names("env")
    if name.upper() in names:
        return name.upper()
    bare = {known[len(PREFIX) :]: known for known in names}
    close = near(name.upper()[len(PREFIX) :], bare, MISSPELT)
    return bare[close] if close else ""


def value_problem(spec: Spec, value: str) -> str:
    """Why a variable's text is refused, or read as the opposite of what it says; "" where fine."""
    kind = spec["kind"]
    if "choices" in spec:
        items = [item.strip() for item in value.split(",")] if kind == "list" else [value]
        known = [str(item) for item in spec["choices"]]
        for item in items:
            if (item.lower() if spec.get("any_case") else item) not in known:
                close = near(item.lower(), {name.lower(): name for name in known}, 0.5)
                hint = next((name for name in known if name.lower() == close), "")
                told = f"; did you mean {hint}?" if hint else ""
                return f"allowed: {', '.join(known)}{told}"
        return ""
    if kind == "bool_int" and not _whole(value):
        return "allowed: 0 or 1; vLLM reads it as a number, and any other word ends the process"
    if kind == "bool_word" and value not in spec["true"] and value.lower() not in FALSE:
        return f"allowed: 0, or {', '.join(spec['true'])}; any other word counts as 0"
    if kind == "int" and not _whole(value):
        return "allowed: a whole number"
    if kind == "float" and not _number(value):
        return "allowed: a number"
    return ""


def _whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
