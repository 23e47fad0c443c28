"""What a result of another tool leaves out and its user knows: `told.json` beside it.

`vllm bench serve` knows no GPUs and keeps no lengths. The same keys in the result itself count too
(`vllm bench serve --metadata prefill_gpus=8 decode_gpus=16`); told.json wins.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from analysis.told import count, number

NAME = "told.json"
COUNTS = (
    "gpus", "allocated_gpus", "prefill_gpus", "decode_gpus", "random_input_len",
    "random_output_len",
)  # fmt: skip
KEYS = (*COUNTS, "random_range_ratio", "topology")
LARGEST = 2**16


def read_told(result: Path) -> dict[str, Any]:
    """What told.json in the result's folder says of all results there, and under `files` of this
    one; AnalysisError for anything that is not understood."""
    path = result.parent / NAME
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > LARGEST:
            raise AnalysisError(f"{path}: larger than {LARGEST} bytes")
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, AnalysisError):
            raise
        raise AnalysisError(f"{path}: cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise AnalysisError(f"{path}: expected an object with some of {', '.join(KEYS)}")
    files = data.pop("files", {})
    own = files.get(result.name, {}) if isinstance(files, dict) else None
    if not isinstance(own, dict):
        raise AnalysisError(f"{path}: files: expected an object of file names with objects")
    told = data | own
    for key, value in told.items():
        _check(path, key, value)
    return told


def _check(path: Path, key: str, value: Any) -> None:
    if key not in KEYS:
        raise AnalysisError(f"{path}: key {key!r:.60}: allowed are files, {', '.join(KEYS)}")
    good = {"random_range_ratio": number(value) is not None, "topology": isinstance(value, str)}
    if not good.get(key, count(value) is not None):
        wanted = "a text" if key == "topology" else "a number above 0"
        raise AnalysisError(f"{path}: {key}: {value!r:.60}, expected {wanted}")
