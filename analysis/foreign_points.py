"""A result of `vllm bench serve` or of a fork as a point, so that the same rules judge it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.point import expected_range
from analysis.run import Run
from jobs.record_checks import check_point
from jobs.record_files import check_numbers
from jobs.records import BenchPoint
from jobs.result_file import error_counts, failed_requests, latency, normalized
from jobs.window import from_arrays, window_of

# sa-bench draws U[int(r*L), L], vLLM U[L(1-r), L(1+r)].
DEFINITIONS = {"sa-bench": "inferencemax", "vllm bench serve": "vllm", "native": "inferencemax"}


@dataclass(frozen=True, kw_only=True)
class Named:
    """What the file's name and folder tell; None where they do not."""

    gpus: int | None
    prefill: int | None
    decode: int | None
    isl: int | None
    osl: int | None


def run_of(path: Path, data: dict[str, Any], named: Named) -> Run:
    """A run that has nothing but the client's figures."""
    tool = _tool(data, path)
    roles = {"prefill": named.prefill, "decode": named.decode}
    return Run(
        path=path,
        run_id=path.stem if path.parent.name in ("", ".") else f"{path.parent.name}/{path.stem}",
        labels={"model": str(data.get("model_id") or "")} if data.get("model_id") else {},
        engine=str(data.get("backend") or data.get("endpoint_type") or ""),
        rehearsal=False,
        served_model=str(data["model_id"]) if data.get("model_id") else None,
        serving_gpus=named.gpus,
        allocated_gpus=None,
        role_gpus={role: count for role, count in roles.items() if count},
        disaggregated=bool(named.prefill and named.decode),
        uses_nixl=False,
        stream_interval=1,
        segment=None,
        segment_asked=None,
        planned=set(),
        accuracy_plan=None,
        foreign=tool,
    )


def point_of(data: dict[str, Any], index: int, run: Run, named: Named) -> BenchPoint:
    """BrokenFileError where the figures cannot be those of a result."""
    data = normalized(dict(data), "the result")
    prompts = _whole(data.get("num_prompts")) or int(data["completed"])
    asked = _whole(data.get("max_concurrency")) or _whole(data.get("max_concurrent_requests")) or 0
    isl = _whole(data.get("random_input_len")) or named.isl or 0
    osl = _whole(data.get("random_output_len")) or named.osl or 0
    tool = run.foreign or ""
    definition = DEFINITIONS.get(tool, "")
    ratio = data.get("random_range_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        # vLLM's default is 0; sa-bench's recipes differ.
        ratio = 0.0 if definition == "vllm" and (isl or osl) else -1.0
    ranges = [
        expected_range(definition, length, ratio) if length else None for length in (isl, osl)
    ]
    window = window_of(from_arrays(data, asked) if asked else {}, data)
    throughput = data.get("request_throughput")
    point = BenchPoint(
        run_id=run.run_id, index=index, name=f"c{asked}", engine=run.engine, rehearsal=False,
        client=tool, concurrency=asked, num_prompts=prompts, isl=isl, osl=osl,
        range_definition=definition, range_ratio=max(float(ratio), 0.0),
        input_range=list(ranges[0] or (0, 0)), output_range=list(ranges[1] or (0, 0)),
        seed=0, started_at=str(data.get("date") or ""), ended_at="",
        duration_s=float(data["duration"]), completed=int(data["completed"]),
        failed=failed_requests(data, prompts), total_input_tokens=int(data["total_input_tokens"]),
        total_output_tokens=int(data["total_output_tokens"]),
        request_throughput=float(throughput) if isinstance(throughput, int | float) else None,
        ttft_ms=latency(data, "ttft"), tpot_ms=latency(data, "tpot"), itl_ms=latency(data, "itl"),
        e2el_ms=latency(data, "e2el"), errors=error_counts(data), window=window,
    )  # fmt: skip
    check_numbers(point, "the result")
    check_point(point, "the result")
    return point


def _tool(data: dict[str, Any], path: Path) -> str:
    """Which program wrote it, by the keys that only it has."""
    if "error_samples" in data:
        return "native"
    forked = "reuse_http_connections" in data or "peak_output_tokens_per_s" in data
    if forked or path.name.startswith("results_concurrency_"):
        return "sa-bench"
    return "vllm bench serve"


def _whole(value: Any) -> int | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
    return int(value) if usable else None
