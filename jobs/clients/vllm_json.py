"""A measurement under `vllm bench serve`'s keys and definitions, for tools that read its files.

Keys as vLLM 0.32 writes them with --save-result (benchmarks/serve.py), in its order. Where its
definitions differ from ours, this file follows them: ITL is the gap between chunks whatever they
hold, TPOT of an answer that came in one chunk is 0, and 0 stands where nothing was measured.
Texts are not kept, so generated_texts is left out, as it is without --save-detailed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.clients.figures import Limits, chunk_gaps, duration_s
from jobs.clients.load import Load
from jobs.clients.merged import Measured


def vllm_result(
    load: Load, measured: Measured, prompt_tokens: npt.NDArray[Any], date: str, limits: Limits
) -> dict[str, Any]:
    """The whole JSON object, arrays included; `date` as %Y%m%d-%H%M%S."""
    columns, good = measured.columns, measured.good
    span = duration_s(measured)
    # vLLM takes the server's count of prompt tokens where it is told.
    told = columns["server_prompt_tokens"]
    inputs = np.where(told >= 0, told, prompt_tokens[columns["index"]])
    outputs = np.where(good, columns["output_tokens"], 0)
    total_in, total_out = int(inputs[good].sum()), int(outputs.sum())
    ttft = np.where(good, columns["first_s"] - columns["sent_s"], 0.0)
    e2el = np.where(good, columns["last_s"] - columns["sent_s"], 0.0)
    tpot = np.where(outputs > 1, (e2el - ttft) / np.maximum(outputs - 1, 1), 0.0)
    completed = int(good.sum())
    result: dict[str, Any] = {
        "date": date,
        "endpoint_type": "openai-chat" if load.endpoint == "chat" else "vllm",
        "backend": "openai-chat" if load.endpoint == "chat" else "vllm",
        "label": None,
        "model_id": load.model,
        "tokenizer_id": load.model,
        "num_prompts": len(good),
        "request_rate": load.request_rate if load.request_rate is not None else "inf",
        "burstiness": load.burstiness,
        "max_concurrency": load.concurrency or None,
        "duration": span,
        "completed": completed,
        "failed": len(good) - completed,
        "total_input_tokens": total_in,
        "total_output_tokens": total_out,
        "request_throughput": completed / span,
        "request_goodput": _goodput(ttft[good], tpot[good], limits, span),
        "output_throughput": total_out / span,
        "total_token_throughput": (total_in + total_out) / span,
        "input_lens": inputs.tolist(),
        "output_lens": outputs.tolist(),
        "ttfts": ttft.tolist(),
        "itls": _gaps(measured),
        "latencies": e2el.tolist(),
        "start_times": columns["sent_s"].tolist(),
        "queue_times": (columns["sent_s"] - columns["due_s"]).tolist(),
        "errors": [measured.kinds[code] for code in columns["kind"].tolist()],
    }
    result |= _peaks(measured)
    result["rtfx"] = 0.0
    pooled = chunk_gaps(measured)
    several = tpot[good & (outputs > 1)]
    for name, values in (
        ("ttft", ttft[good]),
        ("tpot", several),
        ("itl", pooled),
        ("e2el", e2el[good]),
    ):
        result |= _statistics(name, values, (50, 90, 99))
    return result


def _statistics(name: str, values: Any, percentiles: Sequence[int]) -> dict[str, float]:
    values = values if len(values) else np.zeros(1)
    found = {"mean": values.mean(), "median": np.median(values), "std": values.std()}
    found |= {f"p{p}": np.percentile(values, p) for p in percentiles}
    return {f"{key}_{name}_ms": float(value) * 1000 for key, value in found.items()}


def _goodput(ttft: Any, tpot: Any, limits: Limits, span: float) -> float | None:
    if not limits.given:
        return None
    within = np.ones(len(ttft), dtype=bool)
    if limits.ttft_ms is not None:
        within &= ttft * 1000 <= limits.ttft_ms
    if limits.tpot_ms is not None:
        within &= tpot * 1000 <= limits.tpot_ms
    return float(within.sum() / span)


def _gaps(measured: Measured) -> list[list[float]]:
    starts, times, good = measured.chunk_starts, measured.chunk_us, measured.good
    return [
        (np.diff(times[a:b].astype(np.int64)) / 1e6).tolist() if fine else []
        for a, b, fine in zip(starts[:-1], starts[1:], good, strict=True)
    ]


def _peaks(measured: Measured) -> dict[str, float | int]:
    """Chunks in the fullest second, requests under way in the fullest, in whole seconds."""
    good, columns = measured.good, measured.columns
    if not good.any():
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    first = columns["sent_s"][good].min()
    of_good = np.repeat(good, np.diff(measured.chunk_starts))
    sent = np.repeat(columns["sent_s"], np.diff(measured.chunk_starts))
    at = (sent + measured.chunk_us / 1e6 - first)[of_good].astype(np.int64)
    begin = (columns["sent_s"][good] - first).astype(np.int64)
    end = (columns["last_s"][good] - first).astype(np.int64)
    steps = np.zeros(int(end.max()) + 2, dtype=np.int64)
    np.add.at(steps, begin, 1)
    np.add.at(steps, end + 1, -1)
    return {
        "max_output_tokens_per_s": float(np.bincount(np.maximum(at, 0)).max()),
        "max_concurrent_requests": int(np.cumsum(steps).max()),
    }
