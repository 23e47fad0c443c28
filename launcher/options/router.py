"""vllm-router's flags checked against its own parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.options.layers import entries
from launcher.options.table import near, router_table
from launcher.options.values import refusal


def router_problems(flags: Mapping[str, Any], owned: frozenset[str]) -> Iterator[str]:
    """What vllm-router would refuse of `router.flags`; the launcher's own flags are told apart."""
    table = router_table()
    names = table.names("flags")
    seen: dict[str, str] = {}
    for entry in entries("router.flags", flags):
        bare = entry.name.lstrip("-").lower()
        if entry.name in owned:
            continue
        if bare in owned:
            yield f"{entry.where}={entry.value!r}: the launcher sets --{bare} itself; remove it"
        elif entry.name not in names:
            close = near(bare, names)
            hint = f"; did you mean {close}?" if close else f"; it has {', '.join(sorted(names))}"
            yield (
                f"{entry.where}={entry.value!r}: {table.program} {table.release} has no flag "
                f"--{entry.name}{hint}"
            )
        elif entry.name in seen:
            yield f"{entry.where}={entry.value!r}: the same as {seen[entry.name]}; give it once"
        elif entry.value is not None and not (
            entry.value is False and names[entry.name]["kind"] == "switch"
        ):
            said = refusal(names[entry.name], entry.value)
            if said:
                yield f"{entry.where}={entry.value!r}: {said} ({table.program} {table.release})"
        seen[entry.name] = entry.where
