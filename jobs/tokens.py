"""Words in a plan that only the allocation can fill: node addresses and names, run directory,
folders of caches
and of staged models on every node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobs.allocation import Node
from jobs.cache_folder import kept_folder, user_folder
from jobs.errors import JobError
from jobs.stage.shelf import models_folder

TOKEN = re.compile(r"\{(node\d+\.(?:address|name)|run_dir|run_id|cache|kept|stage)\}")


def token_values(
    nodes: Sequence[Node],
    run_dir: Path,
    run_id: str,
    cache_dir: str = "/tmp",
    stage_dir: str | None = None,
) -> dict[str, str]:
    """What every token stands for in this allocation."""
    cache = user_folder(cache_dir) / run_id
    values = {"run_dir": str(run_dir), "run_id": run_id, "cache": str(cache)}
    values["kept"] = str(kept_folder(cache_dir))
    if stage_dir is not None:
        values["stage"] = str(models_folder(stage_dir))
    for node in nodes:
        values[f"node{node.index}.address"] = node.address
        values[f"node{node.index}.name"] = node.name
    return values


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with its tokens replaced; all other braces stay. JobError for an unknown node."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(sorted(values))
            raise JobError(
                f"{match[0]} in {text!r} names no node of this allocation; known: {known}"
            )
        return values[match[1]]

    return TOKEN.sub(value, text)
