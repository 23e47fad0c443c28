"""What a well-typed value can mean: numbers that vLLM's config classes bound, words of enums.

The release's parser takes them all; its config classes refuse them a little later (vLLM 0.33.0
config/cache.py, scheduler.py, speculative.py, compilation.py: pydantic's gt, ge, le, and enums).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.engines.vllm_flags import looked_at, resolved
from launcher.options.layers import Written
from launcher.options.table import Table, near
from launcher.schema import LaunchConfig

AT_LEAST_ONE = (
    *("max-num-seqs", "max-num-batched-tokens", "block-size", "mamba-block-size"),
    *("stream-interval", "num-gpu-blocks-override", "api-server-count"),
)
INSIDE = {("speculative-config", "num_speculative_tokens"): 1}
"""(flag, key) -> the smallest number."""
WORDS = {
    ("compilation-config", "cudagraph_mode"): (
        *("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"),
    ),
    ("compilation-config", "mode"): (
        *("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE", "0", "1", "2", "3"),
    ),
}
"""(flag, key) -> names, in any case."""


def bound_problems(config: LaunchConfig, table: Table) -> Iterator[str]:
    """Values of the right type that vLLM's config classes refuse."""
    for entry in looked_at(config):
        flag = resolved(table, entry.name)
        if flag is None:
            continue
        number = _number(entry.value)
        if flag.canonical == "gpu-memory-utilization" and number is not None:
            if not 0 < number <= 1:
                yield _told(table, entry, "a share of the memory, above 0 and up to 1")
        elif flag.canonical in AT_LEAST_ONE and number is not None and number < 1:
            yield _told(table, entry, "1 or more")
        elif isinstance(entry.value, Mapping):
            yield from _inside(table, flag.canonical, entry)


def _inside(table: Table, flag: str, entry: Written) -> Iterator[str]:
    for key, value in entry.value.items():
        place = Written(entry.name, f"{entry.where}.{key}", value)
        least, number = INSIDE.get((flag, key)), _number(value)
        if least is not None and number is not None and number < least:
            yield _told(table, place, f"{least} or more")
        names = WORDS.get((flag, key))
        if names and isinstance(value, (str, int)) and str(value).upper() not in names:
            close = near(str(value).upper(), names)
            hint = f"; did you mean {close}?" if close else ""
            yield _told(table, place, f"{', '.join(names)}{hint}")


def _told(table: Table, entry: Written, allowed: str) -> str:
    return (
        f"{entry.where}={entry.value!r}: allowed: {allowed} ({table.program} {table.release} "
        "config classes)"
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None
