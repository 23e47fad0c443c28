"""Many releases' answers as one table: every name with the releases that have it, and how."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

OWN_CLASSES = {"ModelConfig", "ParallelConfig", "LoadConfig", "MultiModalConfig"}
"""Classes that vLLM fills in itself inside another: their fields are not the user's to give."""

History = list[list[Any]]
"""[[index of the first release, of the last, what it takes], ...], oldest first."""


def histories(per_release: Iterable[Mapping[str, Any]]) -> dict[str, History]:
    """One history per name; equal neighbours are joined, a gap starts a new span."""
    found: dict[str, History] = {}
    for index, names in enumerate(per_release):
        for name, spec in names.items():
            spans = found.setdefault(name, [])
            if spans and spans[-1][1] == index - 1 and spans[-1][2] == spec:
                spans[-1][1] = index
            else:
                spans.append([index, index, spec])
    return dict(sorted(found.items()))


def vllm_table(dumps: Mapping[str, Any], before: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The whole table of vLLM: flags, config fields, variables, connectors, NIXL's keys."""
    order = list(dumps.values())
    classes = sorted({name for dump in order for name in reachable(dump)})
    return {
        "releases": list(dumps),
        "flags": histories(dump["flags"] for dump in order),
        "resolved": histories(dump["resolved"] for dump in order),
        "configs": {
            name: histories(dump["configs"].get(name, {}) for dump in order) for name in classes
        },
        "env": histories(vllm_variables(dump) for dump in order),
        "connectors": histories({name: {} for name in dump["connectors"]} for dump in order),
        "nixl": histories(dump["nixl"] for dump in order),
        "before": {kind: dict(sorted(names.items())) for kind, names in before.items()},
    }


def vllm_variables(dump: Mapping[str, Any]) -> dict[str, Any]:
    """The VLLM_ variables: declared ones, and those that other files read as text."""
    declared = {name: spec for name, spec in dump["env"].items() if name.startswith("VLLM_")}
    return {name: {"kind": "str"} for name in dump["env_elsewhere"]} | declared


def reachable(dump: Mapping[str, Any]) -> set[str]:
    """Config classes that a flag's JSON can reach."""
    queue = [spec["config"] for spec in dump["flags"].values() if "config" in spec]
    found: set[str] = set()
    while queue:
        name = queue.pop()
        if name in found or name in OWN_CLASSES:
            continue
        found.add(name)
        queue += [field["config"] for field in dump["configs"][name].values() if "config" in field]
    return found


def names_before(
    former: Mapping[str, Path], first: Path, executed: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """{flags|env: {name: last former release with it}} of names gone before the first release.

    Read from the source as text; the same reading of the first supported release must find what
    executing it found, else nothing is trusted and the program stops.
    """
    told = {kind: set(executed[kind]) for kind in ("flags", "env")}
    for kind, names in source_names(first).items():
        missed = told[kind] - names
        sys.stdout.write(f"{kind} by text: {len(told[kind] - missed)} of {len(told[kind])}\n")
        if len(missed) > len(told[kind]) // 20:
            sys.stderr.write(f"reading {kind} as text misses {sorted(missed)}\n")
            raise SystemExit(2)
    gone: dict[str, dict[str, str]] = {"flags": {}, "env": {}}
    for release, root in former.items():
        for kind, names in source_names(root).items():
            gone[kind] |= dict.fromkeys(names - told[kind] - {"help"}, release)
    return gone


def source_names(root: Path) -> dict[str, set[str]]:
    """Names in a release's source: literal options and frontend fields, keys of envs.py."""
    engine = (root / "vllm" / "engine" / "arg_utils.py").read_text(encoding="utf-8")
    flags = set(re.findall(r"""["']--([a-z0-9][a-z0-9-]+)["']""", engine))
    for path in (root / "vllm" / "entrypoints").rglob("cli_args.py"):
        text = path.read_text(encoding="utf-8")
        flags |= set(re.findall(r"""["']--([a-z0-9][a-z0-9-]+)["']""", text))
        fields = re.findall(r"^    ([a-z][a-z0-9_]+): ", text, re.MULTILINE)
        flags |= {name.replace("_", "-") for name in fields}
    variables = (root / "vllm" / "envs.py").read_text(encoding="utf-8")
    declared = re.findall(r'^    "([A-Z0-9_]+)":', variables, re.MULTILINE)
    return {"flags": flags, "env": set(declared)}


def table_text(table: Mapping[str, Any]) -> str:
    """JSON with one line per name, so that a new release shows as the lines it changed."""
    lines = [f'"releases": {json.dumps(table["releases"])}']
    for section, names in table.items():
        if section == "releases":
            continue
        entries = [f" {json.dumps(name)}: {_compact(value)}" for name, value in names.items()]
        lines.append(f'"{section}": {{\n' + ",\n".join(entries) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
