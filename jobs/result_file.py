"""A client's result JSON (keys of `vllm bench serve`) as the figures of a point."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from jobs.errors import JobError
from jobs.records import ClientLoad, Latency, RecordError, from_json

OLD_NAMES = {"total_input": "total_input_tokens", "total_output": "total_output_tokens"}
STATISTICS = ("mean", "median", "std", "p50", "p90", "p95", "p99")
NEEDED = ("duration", "completed", "total_input_tokens", "total_output_tokens")


def read_result(path: Path) -> dict[str, Any]:
    """The client's figures; JobError when the file is missing or cannot be a result."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise JobError(f"the client ended without writing its result {path}") from None
    except (OSError, ValueError) as error:
        raise JobError(f"{path} is no result of a benchmark client: {error}") from error
    if not isinstance(data, dict):
        raise JobError(f"{path} is no result of a benchmark client: expected a JSON object")
    try:
        return normalized(data, str(path))
    except RecordError as error:
        raise JobError(str(error)) from None


def normalized(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Older names under the present ones; RecordError without the figures that every result has."""
    for old, new in OLD_NAMES.items():
        if old in data:
            data.setdefault(new, data[old])
    for name in STATISTICS:  # SGLang's word for it.
        if f"{name}_e2e_latency_ms" in data:
            data.setdefault(f"{name}_e2el_ms", data[f"{name}_e2e_latency_ms"])
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for percentile, value in _pairs(data.get(f"percentiles_{metric}_ms")):
            data.setdefault(f"p{percentile:g}_{metric}_ms", value)
    wrong = [key for key in NEEDED if _count(data.get(key)) is None]
    if wrong:
        raise RecordError(f"{where}: no usable {', '.join(wrong)} in the client's result")
    return data


def _pairs(told: Any) -> list[tuple[float, Any]]:
    """A list of [percentile, value], or an object of them."""
    if isinstance(told, dict):
        told = [[float(key), value] for key, value in told.items() if _is_number(key)]
    pairs = told if isinstance(told, list) else []
    return [
        (pair[0], pair[1])
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and _count(pair[0]) is not None
    ]


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _count(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def failed_requests(data: dict[str, Any], num_prompts: int) -> int:
    """As the client counts them; older clients do not."""
    failed = _count(data.get("failed"))
    return int(failed) if failed is not None else max(0, num_prompts - int(data["completed"]))


def latency(data: dict[str, Any], metric: str) -> Latency:
    """Figures of ttft, tpot, itl or e2el in ms; a mean or median of 0 means not measured."""

    def value(name: str) -> float | None:
        return _count(data.get(f"{name}_{metric}_ms"))

    if 0 in (value("mean"), value("median")):
        return Latency()
    return Latency(
        mean=value("mean"),
        median=value("median") or value("p50") or None,
        p90=value("p90") or None,
        p99=value("p99") or None,
    )


def goodput_share(data: dict[str, Any], num_prompts: int) -> float | None:
    """Share of all requests that kept the limits, 0..1; None where no limits were given.

    `vllm bench serve` tells good requests a second instead; its older releases, and sa-bench and
    InferenceX after them, under a key that ends in a colon.
    """
    told = _count(data.get("goodput_share"))
    if told is None:
        rate = data.get("request_goodput", data.get("request_goodput:"))
        good = _count(rate)
        if good is None or not num_prompts:
            return None
        told = good * float(data["duration"]) / num_prompts
    return min(told, 1.0)


def request_rate(data: dict[str, Any]) -> float | None:
    """Requests a second of an open loop; None for a closed one ("inf") and where it is not told."""
    return _count(data.get("request_rate")) or None


def client_load(data: dict[str, Any]) -> ClientLoad:
    """What the client says of its own load; nothing where it does not, or not in numbers."""
    told = data.get("load")
    try:
        return from_json(ClientLoad, told if isinstance(told, dict) else {}, "load")
    except RecordError:
        return ClientLoad()


def error_counts(data: dict[str, Any]) -> dict[str, int]:
    """Failed requests by kind; clients that keep one text a request are counted by first line."""
    counts = data.get("error_counts")
    if isinstance(counts, dict):
        numbers = ((str(kind), _count(count)) for kind, count in counts.items())
        return {kind: int(number) for kind, number in numbers if number}
    texts = data.get("errors")
    if not isinstance(texts, list):
        return {}
    lines = (str(text).strip().splitlines() for text in texts if text)
    return dict(Counter(found[-1][:120] for found in lines if found))
