"""Text stand-ins of a plan replaced by names: made-up ones for previews."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(r"\{(?:node(\d+)\.(?:address|name)|run_dir|run_id|cache|kept|stage)\}")


def with_made_up_nodes(value: Any, run_dir: str) -> Any:
    """A document with node0, node1, ... as names and addresses, and a run directory."""
    if isinstance(value, str):
        return TOKEN.sub(lambda match: _made_up(match, run_dir), value)
    if isinstance(value, dict):
        return {key: with_made_up_nodes(item, run_dir) for key, item in value.items()}
    if isinstance(value, list):
        return [with_made_up_nodes(item, run_dir) for item in value]
    return value


def _made_up(match: re.Match[str], run_dir: str) -> str:
    if match.group(1) is not None:
        return f"node{match.group(1)}"
    made_up = {"{run_dir}": run_dir, "{cache}": "/CACHE", "{kept}": "/CACHES"}
    made_up["{stage}"] = "/MODELS"
    return made_up.get(match.group(0), run_dir.rsplit("/", 1)[-1])
