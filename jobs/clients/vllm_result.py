"""What is kept of the result of `vllm bench serve`: figures, reasons of failures, arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

ARRAYS = (
    "input_lens", "output_lens", "start_times", "ttfts", "latencies", "queue_times", "errors",
)  # fmt: skip
LONG_ARRAYS = ("itls", "generated_texts")
ERROR_LENGTH = 200


def count_errors(errors: Iterable[str], failed: int) -> dict[str, int]:
    """How many requests failed for which reason, the most frequent first.

    A reason is the last line of what vLLM kept (it keeps whole tracebacks), at most 200 characters.
    """
    texts = [text.strip() for text in errors if text and text.strip()]
    reasons = Counter(text.splitlines()[-1].strip()[:ERROR_LENGTH] for text in texts)
    silent = failed - sum(reasons.values())
    if silent > 0:
        reasons["no reason given"] += silent
    return dict(reasons.most_common())


def split_result(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result without arrays but with `error_counts`, and the arrays worth keeping."""
    arrays = {name: result[name] for name in ARRAYS if name in result}
    if "latencies" not in arrays and "itls" in result:
        pairs = zip(result.get("ttfts", ()), result["itls"], strict=False)
        arrays["latencies"] = [ttft + sum(gaps) for ttft, gaps in pairs]
    kept = {k: v for k, v in result.items() if k not in (*ARRAYS, *LONG_ARRAYS)}
    kept["error_counts"] = count_errors(result.get("errors", ()), int(result["failed"]))
    return {k: finite(v) for k, v in kept.items()}, arrays


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
