"""Aggregates of other tools as rows: what they tell under the table's names, the rest missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.errors import BrokenFileError
from analysis.foreign_scores import gsm8k, lm_eval
from analysis.told import count, number, whole
from analysis.words import Verdict

Row = dict[str, Any]

STATISTICS = {"mean": "mean", "median": "median", "p90": "p90", "p99": "p99"}
AIPERF = {
    "ttft": "time_to_first_token", "itl": "inter_token_latency", "e2el": "request_latency",
}  # fmt: skip
AIPERF_STATISTICS = {"mean": "avg", "median": "p50", "p90": "p90", "p99": "p99"}


def row_of(data: dict[str, Any], where: str, path: Path) -> Row:
    """The facts of one object; BrokenFileError for one of no tool known here."""
    if "tput_per_gpu" in data:
        row = _inferencex(data)
    elif isinstance(data.get("run"), dict) and "benchmark_type" in data:
        row = _rollup(data)
    elif isinstance(data.get("time_to_first_token"), dict) and "request_throughput" in data:
        row = _aiperf(data)
    elif "accuracy" in data and "num_questions" in data:
        row = gsm8k(data, where)
    elif isinstance(data.get("results"), dict):
        row = lm_eval(data, where)
    elif "completed" in data and "duration" in data:
        row = _without_totals(data)
    else:
        raise BrokenFileError(f"{where}: keys of no tool known here: {', '.join(list(data)[:6])}")
    name = f"{path.parent.name}/{where}" if path.parent.name not in ("", ".") else where
    return {"run": name, "path": str(path), "outcome": "foreign", "notes": ""} | _judged(row)


def _judged(row: Row) -> Row:
    """As our own rows, as far as an aggregate allows."""
    if "verdict" in row:
        return row
    failed, completed = row.get("failed"), row.get("completed")
    if failed:
        return row | {"verdict": Verdict.INVALID.value, "reasons": f"{failed} requests failed"}
    if completed == 0:
        return row | {"verdict": Verdict.INVALID.value, "reasons": "nothing completed"}
    untold = "" if failed is not None else "; it does not tell how many requests failed"
    reason = f"aggregate of {row['client']}: nothing else to check it by{untold}"
    return row | {"verdict": Verdict.UNPROVEN.value, "reasons": reason}


def _inferencex(data: Row) -> Row:
    """Latencies are in seconds. With a disaggregated run output divides by decode GPUs, input by
    prefill GPUs; without one by all."""
    prefill, decode = count(data.get("num_prefill_gpu")), count(data.get("num_decode_gpu"))
    apart = data.get("disagg") in (True, "true", "True") and bool(prefill and decode)
    alone = count(data.get("num_gpus")) or count(data.get("tp")) if not apart else None
    gpus = prefill + decode if apart and prefill and decode else alone
    total = number(data.get("tput_per_gpu"))
    row: Row = {
        "client": "InferenceX",
        "model": data.get("model"),
        "engine": _together(data.get("framework"), data.get("image")),
        "flags": _together(data.get("precision"), _speculation(data.get("spec_decoding"))),
        "topology": data.get("hw"),
        "concurrency": count(data.get("conc")),
        "isl": count(data.get("isl")),
        "osl": count(data.get("osl")),
        "range_definition": "inferencemax",
        "serving_gpus": gpus,
        "prefill_gpus": prefill if apart else None,
        "decode_gpus": decode if apart else None,
        "told_total_tps_per_gpu": total,
        "told_total_tps": total * gpus if total is not None and gpus else None,
    }
    output, inputs = (
        number(data.get("output_tput_per_gpu")),
        number(data.get("input_tput_per_gpu")),
    )
    row |= (
        {"told_output_tps_per_decode_gpu": output, "told_input_tps_per_prefill_gpu": inputs}
        if apart
        else {"told_output_tps_per_gpu": output}
    )
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for ours, theirs in STATISTICS.items():
            seconds = number(data.get(f"{theirs}_{metric}"))
            row[f"{metric}_{ours}_ms"] = None if seconds is None else seconds * 1000
    return row


def _together(*words: Any) -> str | None:
    return " ".join(str(word) for word in words if word) or None


def _speculation(told: Any) -> str:
    return f"spec {told}" if told and told != "none" else ""


def _rollup(data: Row) -> Row:
    """srt-slurm's benchmark-rollup.json: no failed count, and no GPU count in it."""
    run, told = data["run"], data.get("config")
    config: Row = told if isinstance(told, dict) else {}
    row: Row = {
        "client": str(data.get("benchmark_type")),
        "model": config.get("model"),
        "concurrency": count(run.get("concurrency")),
        "isl": count(config.get("isl")),
        "osl": count(config.get("osl")),
        "range_definition": "inferencemax" if data.get("benchmark_type") == "sa-bench" else None,
        "completed": count(run.get("completed_requests")),
        "input_tokens": number(run.get("total_input_tokens")),
        "output_tokens": number(run.get("total_output_tokens")),
    }
    rate, completed = number(run.get("request_throughput")), row["completed"]
    row["duration_s"] = completed / rate if completed and rate else None
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for statistic in ("mean", "p99"):
            row[f"{metric}_{statistic}_ms"] = number(run.get(f"{metric}_{statistic}_ms"))
    return row


def _aiperf(data: Row) -> Row:
    """Its inter-token latency is per request: (E2E - TTFT) / (tokens - 1), which is our TPOT."""
    row: Row = {
        "client": "aiperf",
        "completed": count(_of(data, "request_count", "avg")),
        "failed": whole(_of(data, "error_request_count", "avg")),
        "told_total_tps": _of(data, "total_token_throughput", "avg"),
        "told_output_tps": _of(data, "output_token_throughput", "avg"),
        "duration_s": _of(data, "benchmark_duration", "avg"),
        "mean_input_tokens": _of(data, "input_sequence_length", "avg"),
        "mean_output_tokens": _of(data, "output_sequence_length", "avg"),
    }
    for metric, theirs in AIPERF.items():
        for ours, statistic in AIPERF_STATISTICS.items():
            name = "tpot" if metric == "itl" else metric
            row[f"{name}_{ours}_ms"] = _of(data, theirs, statistic)
    config = data.get("input_config")
    load = config.get("loadgen") if isinstance(config, dict) else None
    if isinstance(load, dict):
        row["concurrency"] = count(load.get("concurrency"))
        row["request_rate"] = number(load.get("request_rate")) or None
    good = _of(data, "good_request_count", "avg")
    sent = (row["completed"] or 0) + (row["failed"] or 0)
    row["good_requests"] = good
    row["goodput_share"] = good / sent if good is not None and sent else None
    return row


def _without_totals(data: Row) -> Row:
    """A client's result that lacks the count of prompt tokens: what it does tell."""
    row: Row = {
        "client": "vllm bench serve",
        "model": data.get("model_id"),
        "concurrency": count(data.get("max_concurrency")),
        "num_prompts": count(data.get("num_prompts")),
        "completed": whole(data.get("completed")),
        "failed": whole(data.get("failed")),
        "duration_s": number(data.get("duration")),
        "output_tokens": number(data.get("total_output_tokens")),
        "told_total_tps": number(data.get("total_token_throughput")),
        "told_output_tps": number(data.get("output_throughput")),
    }
    if row["failed"] is None and row["num_prompts"] and row["completed"] is not None:
        row["failed"] = max(0, row["num_prompts"] - row["completed"])
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for statistic in STATISTICS:
            row[f"{metric}_{statistic}_ms"] = number(data.get(f"{statistic}_{metric}_ms")) or None
    return row


def _of(data: Row, name: str, statistic: str) -> float | None:
    value = data.get(name)
    return number(value.get(statistic)) if isinstance(value, dict) else number(value)
