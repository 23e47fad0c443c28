"""METRICS: every column, declared once.

A metric says its name, the label and unit people see, which way is better, where its numbers come
from, what it means, and how it is computed from the facts. Tables, and whoever sorts or compares,
iterate over METRICS; nothing else knows a column by heart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from analysis.compute import Compute, fact, half_width, per_user, rate
from analysis.facts import LATENCIES, STATISTICS

TOLD = "told_"
DTYPES: dict[str, Any] = {"text": "string", "whole": "Int64", "real": "float64"}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One column. `digits` is what text shows after the point; files keep every digit."""

    name: str
    label: str
    doc: str
    source: str
    compute: Compute
    unit: str = ""
    better: Literal["higher", "lower", ""] = ""
    kind: Literal["text", "whole", "real"] = "real"
    digits: int = 1


def compute_all(facts: pd.DataFrame) -> pd.DataFrame:
    """Every metric as a column, typed by its kind; what was not told is a missing value."""
    columns = {m.name: _values(m, facts).astype(DTYPES[m.kind]) for m in METRICS}
    return pd.DataFrame(columns, index=facts.index)


def _values(metric: Metric, facts: pd.DataFrame) -> pd.Series[float]:
    """What is computed; where that is missing, what another tool's aggregate tells instead."""
    values, told = metric.compute(facts), f"{TOLD}{metric.name}"
    return values.fillna(facts[told].astype("float64")) if told in facts else values


def _text(name: str, label: str, doc: str, source: str) -> Metric:
    """A fact that is words."""
    return Metric(name=name, label=label, doc=doc, source=source, kind="text", compute=fact(name))


def _whole(name: str, label: str, doc: str, source: str, **more: Any) -> Metric:
    """A fact that is a count."""
    return Metric(
        name=name, label=label, doc=doc, source=source, kind="whole", compute=fact(name), **more
    )


def _real(name: str, label: str, doc: str, source: str, **more: Any) -> Metric:
    """A fact that is measured."""
    return Metric(name=name, label=label, doc=doc, source=source, compute=fact(name), **more)


def _share(name: str, label: str, doc: str, source: str, **more: Any) -> Metric:
    """A fact between 0 and 1."""
    return _real(name, label, doc, source, unit="0..1", digits=4, **more)


LATENCY_DOC = {
    "ttft": "time to first token; missing where the client never saw a first token",
    "tpot": "time per output token after the first: (E2E - TTFT) / (output tokens - 1)",
    "itl": "gap between streamed tokens; missing where servers send several tokens a chunk",
    "e2el": "whole request, sent to last token",
}

SHORT = {"median": "p50"}
POINT, RUN, ACCURACY = "points/*.json", "run.json", "accuracy/*.json"

IDENTITY = (
    _text("run", "run", "the run's id", f"{RUN}: run_id"),
    _text("topology", "topology", "option name", f"{RUN}: labels"),
    _text("point", "point", "its name in the run: concurrency, rate, repeat", POINT),
    _text("model", "model", "option name", f"{RUN}: labels"),
    _text("engine", "engine", "engine and its release", f"{RUN}: engine"),
    _whole("concurrency", "conc", "requests in flight at most", POINT),
    Metric(
        name="request_rate", label="rate", unit="req/s", digits=3, source=POINT,
        doc="rate at which requests were sent (open loop); missing: a closed loop of `concurrency`",
        compute=fact("request_rate"),
    ),
    Metric(
        name="burstiness", label="burstiness", digits=3, source=POINT,
        doc="gamma shape of an open loop's gaps; 1: Poisson", compute=fact("burstiness"),
    ),
    _whole("repeat", "repeat", "which measurement of this point in its run, from 1", POINT),
    _whole("isl", "ISL", "requested input length", POINT, unit="tok"),
    _whole("osl", "OSL", "requested output length", POINT, unit="tok"),
    _text(
        "range_definition",
        "range def",
        "what the range ratio means: inferencemax U[int(r*L), L], vllm U[L(1-r), L(1+r)]",
        POINT,
    ),
    Metric(
        name="range_ratio", label="ratio", doc="the range ratio r", source=POINT,
        digits=4, compute=fact("range_ratio"),
    ),
    _text("input_range", "input range", "shortest..longest prompt asked for, tokens", POINT),
    _text("output_range", "output range", "shortest..longest answer asked for, tokens", POINT),
    _text("client", "client", "the program that sent the load", POINT),
    _whole("num_prompts", "asked", "requests of the point", POINT),
    _whole("completed", "done", "requests that succeeded; all figures are over these", POINT),
    _whole("failed", "failed", "requests that failed", POINT, better="lower"),
    Metric(
        name="success_rate", label="success", unit="0..1", digits=4, better="higher", source=POINT,
        doc="succeeded / asked", compute=fact("success_rate"),
    ),
    Metric(
        name="duration_s", label="duration", unit="s", source=POINT,
        doc="the client's own measured span", compute=fact("duration_s"),
    ),
)  # fmt: skip

THROUGHPUT = (
    Metric(
        name="total_tps", label="total", unit="tok/s", better="higher", source=POINT,
        doc="(input + output tokens of successful requests) / duration",
        compute=rate("input_tokens", "output_tokens"),
    ),
    Metric(
        name="total_tps_per_gpu", label="total", unit="tok/s/GPU", better="higher",
        source=f"{POINT}, {RUN}: plan.serving_gpus", doc="total / serving GPUs",
        compute=rate("input_tokens", "output_tokens", gpus="serving_gpus"),
    ),
    Metric(
        name="total_tps_per_allocated_gpu", label="total", unit="tok/s/alloc", better="higher",
        source=f"{POINT}, {RUN}: plan.allocated_gpus",
        doc="total / GPUs of the allocation, idle ones too",
        compute=rate("input_tokens", "output_tokens", gpus="allocated_gpus"),
    ),
    Metric(
        name="output_tps", label="output", unit="tok/s", better="higher", source=POINT,
        doc="output tokens of successful requests / duration", compute=rate("output_tokens"),
    ),
    Metric(
        name="requests_per_s", label="requests", unit="1/s", better="higher", source=POINT,
        doc="successful requests / duration", compute=rate("completed"),
    ),
    Metric(
        name="output_tps_per_gpu", label="output", unit="tok/s/GPU", better="higher",
        source=f"{POINT}, {RUN}: plan.serving_gpus", doc="output tokens / duration / serving GPUs",
        compute=rate("output_tokens", gpus="serving_gpus"),
    ),
    Metric(
        name="output_tps_per_decode_gpu", label="output", unit="tok/s/dGPU", better="higher",
        source=f"{POINT}, {RUN}: plan.role_gpus.decode",
        doc="output tokens / duration / decode GPUs; missing when aggregated",
        compute=rate("output_tokens", gpus="decode_gpus"),
    ),
    Metric(
        name="input_tps_per_prefill_gpu", label="input", unit="tok/s/pGPU", better="higher",
        source=f"{POINT}, {RUN}: plan.role_gpus.prefill",
        doc="input tokens / duration / prefill GPUs; missing when aggregated",
        compute=rate("input_tokens", gpus="prefill_gpus"),
    ),
    Metric(
        name="request_throughput", label="requests", unit="req/s", digits=3, better="higher",
        source=POINT, doc="successful requests / duration", compute=rate("completed"),
    ),
    _share(
        "goodput_share", "goodput",
        "requests that succeeded within the limits / all requests, failed ones too", POINT,
        better="higher",
    ),
    Metric(
        name="request_goodput", label="goodput", unit="req/s", digits=3, better="higher",
        source=POINT, doc="requests that succeeded within the limits / duration",
        compute=rate("good_requests"),
    ),
    _text("goodput_limits", "limits", "what a good request keeps to", f"{RUN}: points.goodput"),
    Metric(
        name="generation_tps_per_user", label="gen", unit="tok/s/user", better="higher",
        source=POINT, doc="1000 / median TPOT in ms", compute=per_user,
    ),
)  # fmt: skip

LATENCY = tuple(
    Metric(
        name=f"{name}_{statistic}_ms", unit="ms",
        label=f"{name.upper()} {SHORT.get(statistic, statistic)}", better="lower",
        source=f"{POINT}: {name}_ms",
        doc=f"{LATENCY_DOC[name]}; {statistic} over successful requests",
        compute=fact(f"{name}_{statistic}_ms"),
    )
    for name in LATENCIES
    for statistic in STATISTICS
)  # fmt: skip

EVIDENCE = (
    Metric(
        name="mean_input_tokens", label="input mean", unit="tok", source=POINT,
        doc="measured mean prompt length", compute=fact("mean_input_tokens"),
    ),
    Metric(
        name="mean_output_tokens", label="output mean", unit="tok", source=POINT,
        doc="measured mean answer length", compute=fact("mean_output_tokens"),
    ),
    _share(
        "external_kv_share", "KV ext",
        "prompt tokens decode took from prefill / prompt tokens", f"{POINT}: server",
    ),
    Metric(
        name="kv_bytes", label="KV moved", unit="bytes", digits=0, source=f"{POINT}: server",
        doc="bytes that crossed between prefill and decode", compute=fact("kv_bytes"),
    ),
    Metric(
        name="preemptions", label="preempted", digits=0, better="lower",
        source=f"{POINT}: server", doc="requests thrown out of KV", compute=fact("preemptions"),
    ),
    _share(
        "cached_share", "cached",
        "prompt tokens found in a prefix cache / prompt tokens", f"{POINT}: server",
    ),
    Metric(
        name="ttft_first_wave_mean_ms", label="TTFT 1st wave", unit="ms", better="lower",
        source=f"{POINT}: window", doc="mean TTFT of the first `concurrency` requests",
        compute=fact("ttft_first_wave_mean_ms"),
    ),
    Metric(
        name="ttft_later_mean_ms", label="TTFT later", unit="ms", better="lower",
        source=f"{POINT}: window", doc="mean TTFT of all requests after the first wave",
        compute=fact("ttft_later_mean_ms"),
    ),
    _whole("peak_concurrency", "peak", "most requests in flight at once", f"{POINT}: window"),
    Metric(
        name="mean_in_flight", label="in flight", source=POINT,
        doc="completed x mean E2E / duration: requests in flight on average (Little's law)",
        compute=fact("mean_in_flight"),
    ),
    Metric(
        name="queue_mean_ms", label="client wait", unit="ms", better="lower",
        source=f"{POINT}: window", doc="mean wait in the client before sending, outside TTFT",
        compute=fact("queue_mean_ms"),
    ),
    _whole("client_processes", "client procs", "processes of the client", f"{POINT}: load"),
    _real(
        "client_cpu_s", "client CPU", "CPU time of all client processes within the span",
        f"{POINT}: load", unit="s", better="lower", digits=2,
    ),
    _share(
        "client_cpu_share", "client CPU", "CPU / wall time of the client's busiest process",
        f"{POINT}: load", better="lower",
    ),
    _share(
        "client_cpu_peak_share", "client CPU peak", "the same in its busiest second",
        f"{POINT}: load", better="lower",
    ),
    Metric(
        name="client_loop_lag_p99_ms", label="client lag", unit="ms", better="lower",
        source=f"{POINT}: load", doc="how far the client's event loop fell behind, p99",
        compute=fact("client_loop_lag_p99_ms"),
    ),
    Metric(
        name="client_loop_lag_max_ms", label="client lag max", unit="ms", better="lower",
        source=f"{POINT}: load", doc="the same, the longest",
        compute=fact("client_loop_lag_max_ms"),
    ),
    _whole(
        "client_backlog_max", "backlog", "open loop: most requests due and not sent",
        f"{POINT}: load", better="lower",
    ),
    Metric(
        name="client_send_late_p99_ms", label="sent late", unit="ms", better="lower",
        source=f"{POINT}: load", doc="open loop: how much later than due, p99",
        compute=fact("client_send_late_p99_ms"),
    ),
    Metric(
        name="ttft_client_added_p99_ms", label="TTFT added", unit="ms", better="lower",
        source=f"{POINT}: load", doc="from a first byte ready in the socket to its time stamp, p99",
        compute=fact("ttft_client_added_p99_ms"),
    ),
    _text("accuracy_dataset", "dataset", "questions asked", ACCURACY),
    _share("accuracy", "accuracy", "right / answered, mean of repeats", ACCURACY, better="higher"),
    _share("accuracy_low", "acc low", "Wilson 95 % for one pass, lower end", ACCURACY),
    _share("accuracy_high", "acc high", "Wilson 95 % for one pass, upper end", ACCURACY),
    Metric(
        name="accuracy_half_width", label="acc +-", unit="0..1", digits=4, source=ACCURACY,
        doc="half of the Wilson interval", compute=half_width("accuracy_low", "accuracy_high"),
    ),
    _share("accuracy_t_low", "acc t low", "t interval over repeats, 95 %, lower end", ACCURACY),
    _share("accuracy_t_high", "acc t high", "t interval over repeats, 95 %, upper end", ACCURACY),
    _whole("accuracy_repeats", "repeats", "accuracy repeats read", ACCURACY),
    _whole("accuracy_answers", "answers", "answers scored, all repeats", ACCURACY),
    _share(
        "accuracy_strict", "strict",
        "right / answered by the stricter extraction, mean of repeats", ACCURACY, better="higher",
    ),
    _share(
        "accuracy_cut_rate", "cut", "answers ended at the token limit", ACCURACY, better="lower"
    ),
    _share("accuracy_invalid_rate", "invalid", "answers with no number", ACCURACY, better="lower"),
    _whole(
        "accuracy_transport_failures", "acc lost",
        "questions that never got an answer; not scored", ACCURACY, better="lower",
    ),
    _text(
        "verdict",
        "verdict",
        "VALID, UNPROVEN, SUSPECT, INVALID or REHEARSAL",
        "analysis/verdict.py",
    ),
    _text("outcome", "outcome", "how the run ended; unfinished = no outcome.json", "outcome.json"),
    _text("reasons", "reasons", "why the verdict is not VALID", "analysis/verdict.py"),
    _text(
        "bottleneck",
        "limited by",
        "prefill, decode-kv, decode-compute, transfer, frontend, client; empty = not known",
        "analysis/bottleneck.py",
    ),
    _text(
        "bottleneck_evidence", "because", "the numbers it rests on, or why it is not known",
        "points/*.json: stations, else series/, else the engines' log",
    ),
    _text("notes", "notes", "what to know besides; never changes the verdict", "verdict.py"),
)  # fmt: skip

PROVENANCE = (
    _whole("serving_gpus", "GPUs", "divisor: GPUs that serve", RUN),
    _whole("allocated_gpus", "alloc GPUs", "divisor: GPUs of the allocation", RUN),
    _whole("decode_gpus", "decode GPUs", "divisor: decode GPUs", RUN),
    _whole("prefill_gpus", "prefill GPUs", "divisor: prefill GPUs", RUN),
    _whole("segment", "segment", "nodes that share one block", f"{RUN}: plan", unit="nodes"),
    _whole("stream_interval", "stream", "tokens a streamed chunk", f"{RUN}: workers", unit="tok"),
    _text("served_model", "served model", "name the servers answer to", f"{RUN}: plan"),
    _text("flags", "flags", "option name", f"{RUN}: labels"),
    _text("workload", "workload", "option name", f"{RUN}: labels"),
    _text("router", "router", "option name", f"{RUN}: labels"),
    _text("cluster", "cluster", "option name", f"{RUN}: labels"),
    _whole("seed", "seed", "seed of the prompts", POINT),
    _text("started_at", "started", "when the point began", POINT),
    _text("path", "path", "the run directory", "the command line"),
    _text("origin", "origin", "run that measured a point which a sweep used again", "reused.json"),
    _text(
        "accuracy_from",
        "accuracy from",
        "run of the same deployment that asked the questions",
        "content.json",
    ),
    _text("snapshot", "snapshot", "SHA-256 of submitted code, configuration and plan", RUN),
)

METRICS = IDENTITY + THROUGHPUT + LATENCY + EVIDENCE + PROVENANCE
BY_NAME = {metric.name: metric for metric in METRICS}
