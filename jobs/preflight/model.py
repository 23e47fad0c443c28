"""The model's files as this node sees them: names and sizes, and what the weights' own headers say.

Nothing is hashed: sizes and headers are read in milliseconds, contents in minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.preflight.finding import Found, failed, passed, reason, skipped
from jobs.stage.headers import safetensors_size

INDEX = "model.safetensors.index.json"


def model_sizes(folder: Path) -> dict[str, int]:
    """Bytes of every visible file in a model folder (not below it)."""
    return {
        entry.name: entry.stat().st_size
        for entry in sorted(folder.iterdir())
        if entry.is_file() and not entry.name.startswith(".")
    }


def model_checks(spec: dict[str, Any], facts: dict[str, Any]) -> Iterator[Found]:
    """All files of the index there, each as long as its header says; sizes go into `facts`."""
    if not spec["model"]:
        yield skipped("model files", "the rehearsal engine loads no model")
        return
    folder = Path(spec["model"])
    try:
        facts["model_files"] = sizes = model_sizes(folder)
    except OSError as error:
        yield failed("model files", f"{folder}: {reason(error)}", "the model's folder")
        return
    troubles = [*_indexed(folder, sizes), *_short(folder, sizes)]
    if "config.json" not in sizes:
        troubles.append("config.json is missing")
    if troubles:
        yield failed("model files", "; ".join(troubles[:5]), f"whole files in {folder}")
    else:
        yield passed("model files", f"{len(sizes)} files, {sum(sizes.values()) / 1e9:.1f} GB")


def _indexed(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    """Files that the index names and the folder lacks."""
    if INDEX not in sizes:
        return
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        named = sorted(set(index["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        yield f"{INDEX} cannot be read"
        return
    for name in named:
        if name not in sizes:
            yield f"{name} is missing"


def _short(folder: Path, sizes: dict[str, int]) -> Iterator[str]:
    for name, size in sizes.items():
        if name.endswith(".safetensors"):
            wanted = safetensors_size(folder / name)
            if wanted is None:
                yield f"{name}: {size:,} bytes, its header cannot be read"
            elif wanted != size:
                yield f"{name}: {size:,} bytes, its header says {wanted:,}"
