"""A result of `vllm bench serve` or of a fork as a point, so that the same rules judge it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.foreign_names import Named, of_inferencex
from analysis.point import DEFINITIONS as KNOWN_RANGES
from analysis.point import expected_range
from analysis.run import Run
from analysis.told import count, number
from jobs.record_checks import check_point
from jobs.record_files import check_numbers
from jobs.records import BenchPoint, Latency, RecordError
from jobs.result_file import error_counts, failed_requests, goodput_share, latency, normalized
from jobs.window import from_arrays, window_of

# sa-bench and SGLang draw U[int(r*L), L], vLLM U[L(1-r), L(1+r)].
SGLANG = "sglang.bench_serving"
INFERENCEX = "InferenceX bench_serving"
OLD_SCRIPT = "benchmark_serving.py"
"""vLLM's script of before `vllm bench serve`, and copies of it: its releases drew from either
range, so none is named."""
DEFINITIONS = {
    "sa-bench": "inferencemax", "native": "inferencemax", SGLANG: "inferencemax",
    INFERENCEX: "inferencemax",
    "vllm bench serve": "vllm",
}  # fmt: skip
ARRAYS = ("input_lens", "output_lens", "ttfts", "errors")
"""One entry a request, failed ones too (--save-detailed)."""
UNSEEN_AT_MOST = 0.01
UNSEEN = Latency(mean=0.0)
"""A TTFT that says of itself that no first token was seen."""


def run_of(path: Path, data: dict[str, Any], named: Named) -> Run:
    """A run that has nothing but the client's figures."""
    tool = _tool(data, path)
    roles = {
        "prefill": count(data.get("prefill_gpus")) or named.prefill,
        "decode": count(data.get("decode_gpus")) or named.decode,
    }
    apart = None not in roles.values()
    told = count(data.get("gpus")) or named.gpus
    both = sum(gpus or 0 for gpus in roles.values()) if apart else None
    if told and both and told != both:
        raise RecordError(f"{told} GPUs are not the {both} of prefill and decode: {roles}")
    labels = {name: data.get(key) for name, key in (("model", "model_id"), ("topology",) * 2)}
    return Run(
        path=path,
        run_id=path.stem if path.parent.name in ("", ".") else f"{path.parent.name}/{path.stem}",
        labels={name: str(text) for name, text in labels.items() if text},
        engine=str(data.get("backend") or data.get("endpoint_type") or ""),
        rehearsal=str(data.get("rehearsal")).lower() == "true",
        served_model=str(data["model_id"]) if data.get("model_id") else None,
        serving_gpus=told or both,
        allocated_gpus=count(data.get("allocated_gpus")),
        role_gpus={role: gpus for role, gpus in roles.items() if gpus},
        disaggregated=apart,
        uses_nixl=False,
        stream_interval=1,
        segment=None,
        segment_asked=None,
        planned=set(),
        accuracy_plan=None,
        foreign=tool,
    )


def has_totals(data: dict[str, Any]) -> bool:
    """Whether it tells both token totals, by any name; one that can be worked out is filled in."""
    spans = (number(data.get("duration")), number(data.get("output_throughput")))
    for kind in ("input", "output"):
        name, lengths = f"total_{kind}_tokens", data.get(f"{kind}_lens")
        if any(number(data.get(each)) is not None for each in (name, f"total_{kind}")):
            continue
        if isinstance(lengths, list) and all(number(each) is not None for each in lengths):
            data[name] = int(sum(lengths))
        elif kind == "output" and None not in spans:
            data[name] = round((spans[0] or 0.0) * (spans[1] or 0.0))
        else:
            return False
    return True


def point_of(data: dict[str, Any], index: int, run: Run, named: Named) -> BenchPoint:
    """BrokenFileError where the figures cannot be those of a result."""
    data = normalized(dict(data), "the result")
    prompts = _asked(data)
    paced = number(data.get("request_rate")) or None
    asked = count(data.get("max_concurrency")) or 0
    if not asked and not paced:
        asked = count(data.get("max_concurrent_requests")) or 0
    if paced:
        run.open_loop.add(index)
    isl = count(data.get("random_input_len")) or named.isl or 0
    osl = count(data.get("random_output_len")) or named.osl or 0
    tool = run.foreign or ""
    named_range = str(data.get("range_definition"))
    definition = named_range if named_range in KNOWN_RANGES else DEFINITIONS.get(tool, "")
    ratio = _ratio(data, definition)
    ranges = [
        expected_range(definition, length, ratio) if length and ratio is not None else None
        for length in (isl, osl)
    ]
    ttft = _ttft(data)
    window = window_of(from_arrays(data, 0 if paced else asked), data)
    if ttft == UNSEEN:
        window = replace(window, first_wave_ttft_ms=None, later_ttft_ms=None)
    throughput = data.get("request_throughput")
    point = BenchPoint(
        run_id=run.run_id, index=index, name=f"rate{paced:g}" if paced else f"c{asked}",
        engine=run.engine, rehearsal=False,
        client=tool, concurrency=asked, num_prompts=prompts, isl=isl, osl=osl,
        range_definition=definition, range_ratio=ratio or 0.0,
        input_range=list(ranges[0] or (0, 0)), output_range=list(ranges[1] or (0, 0)),
        seed=0, started_at=str(data.get("date") or ""), ended_at="",
        duration_s=float(data["duration"]), completed=int(data["completed"]),
        failed=failed_requests(data, prompts), total_input_tokens=int(data["total_input_tokens"]),
        total_output_tokens=int(data["total_output_tokens"]),
        request_throughput=float(throughput) if isinstance(throughput, int | float) else None,
        ttft_ms=ttft, tpot_ms=latency(data, "tpot"), itl_ms=latency(data, "itl"),
        e2el_ms=latency(data, "e2el"), errors=error_counts(data), window=window,
        request_rate=paced, goodput_share=goodput_share(data, prompts),
    )  # fmt: skip
    check_numbers(point, "the result")
    check_point(point, "the result")
    return point


def _asked(data: dict[str, Any]) -> int:
    """Requests that were sent; where that is not told, all that anything in the result is of."""
    counts = [len(data[name]) for name in ARRAYS if isinstance(data.get(name), list)]
    failed = count(data.get("failed")) or 0
    return count(data.get("num_prompts")) or max([int(data["completed"]) + failed, *counts])


def _ratio(data: dict[str, Any], definition: str) -> float | None:
    """The range ratio; None where it is not told, or not as one number."""
    told = data.get("random_range_ratio")
    if told is None:
        # vLLM's default is 0; recipes of the others differ.
        return 0.0 if definition == "vllm" else None
    ratio = number(told)
    if ratio is None and number(str(told).removeprefix("-")) is not None:
        raise RecordError(f"random_range_ratio {told!r:.40}: no range of lengths has that")
    return ratio


def _ttft(data: dict[str, Any]) -> Latency:
    """UNSEEN where the client says 0 for it, or for more than a few requests that made tokens."""
    if 0 in (number(data.get("mean_ttft_ms")), number(data.get("median_ttft_ms"))):
        return UNSEEN
    firsts, made = data.get("ttfts"), data.get("output_lens")
    if isinstance(firsts, list) and isinstance(made, list) and len(firsts) == len(made):
        zero = sum(first == 0 and bool(tokens) for first, tokens in zip(firsts, made, strict=True))
        if zero > UNSEEN_AT_MOST * len(made):
            return UNSEEN
    return latency(data, "ttft")


def _tool(data: dict[str, Any], path: Path) -> str:
    """Which program wrote it, by the keys that only it has."""
    if "error_samples" in data:
        return "native"
    if "total_output_tokens_retokenized" in data or "sharegpt_output_len" in data:
        return SGLANG
    forked = "reuse_http_connections" in data or "peak_output_tokens_per_s" in data
    if forked or path.name.startswith("results_concurrency_"):
        return "sa-bench"
    if "benchmark_start_time_unix" in data or of_inferencex(path):
        return INFERENCEX
    return "vllm bench serve" if "request_goodput:" not in data else OLD_SCRIPT
