"""What the time series hold: every metric declared once, and how it is made of what was sampled.

The job records gauges and counters as the servers tell them (jobs/engines/vllm_series.py says
which); counters become rates here, between two looks at the same rank.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SeriesMetric:
    """One metric of the long frame.

    `kind`: gauge (as told), rate (counter / s), count (counter since the look before), ratio
    (counter / counter, both since the look before; missing where the lower one stood still).
    """

    name: str
    unit: str
    doc: str
    kind: str
    column: str
    per: str = ""
    scale: float = 1.0


def _gauge(name: str, unit: str, doc: str) -> SeriesMetric:
    return SeriesMetric(name, unit, doc, "gauge", name)


def _rate(name: str, column: str, unit: str, doc: str, scale: float = 1.0) -> SeriesMetric:
    return SeriesMetric(name, unit, doc, "rate", column, scale=scale)


def _count(name: str, doc: str) -> SeriesMetric:
    return SeriesMetric(name, "since last look", doc, "count", name)


SERIES_METRICS = (
    _gauge("running", "requests", "in the engine's batch; router: under way in it"),
    _gauge("waiting", "requests", "not in the batch: for capacity, or for their KV to arrive"),
    _gauge("waiting_deferred", "requests", "of those, skipped for the moment (KV under way, ...)"),
    _gauge("fetch_waiting", "requests", "decode: KV fetch not begun"),
    _gauge("fetching", "requests", "decode: KV fetch under way"),
    _gauge("fetched_waiting", "requests", "decode: KV is there, not yet in the batch"),
    _gauge("kv_usage", "0..1", "share of the KV blocks in use"),
    _rate("prompt_tps", "prompt_tokens", "tok/s", "prompt tokens, whatever their source"),
    _rate("computed_tps", "computed_tokens", "tok/s", "prompt tokens computed here"),
    _rate("cached_tps", "cached_tokens", "tok/s", "prompt tokens from the local prefix cache"),
    _rate("external_tps", "external_tokens", "tok/s", "prompt tokens whose KV was fetched"),
    _rate("generation_tps", "generation_tokens", "tok/s", "generated tokens"),
    _count("preemptions", "requests thrown out of the KV cache"),
    _rate("finished_rps", "finished", "req/s", "requests that ended, whatever the reason"),
    SeriesMetric("queue_mean_s", "s", "wait of requests that ended", "ratio", "queue_s", "queued"),
    _rate("steps_rps", "steps", "1/s", "engine steps"),
    SeriesMetric("step_tokens", "tok", "tokens a step", "ratio", "step_tokens", "steps"),
    _rate("transfers_rps", "transfers", "1/s", "KV transfers that ended"),
    SeriesMetric(
        "transfer_mean_s", "s", "time of a KV transfer", "ratio", "transfer_s", "transfers"
    ),
    _rate("transferring", "transfer_s", "transfers", "mean number of KV transfers under way"),
    _rate("transfer_mbps", "transfer_bytes", "MB/s", "KV bytes moved", 1e-6),
    _count("transfers_failed", "KV transfers that failed"),
    _count("kv_expired", "prefilled requests whose KV nobody fetched in time"),
    SeriesMetric(
        "external_hit_rate", "0..1", "of tokens asked for", "ratio",
        "external_hits", "external_queries",
    ),
    SeriesMetric(
        "prefix_hit_rate", "0..1", "of tokens asked for", "ratio", "prefix_hits", "prefix_queries"
    ),
    _gauge("answer_s", "s", "how long the metrics page took"),
    _rate("cpu", "cpu_s", "cores", "CPU of the process that answers HTTP"),
    SeriesMetric(
        "memory_gb", "GB", "resident memory of that process", "gauge", "memory_bytes", scale=1e-9
    ),
    _gauge("prefill_active", "requests", "router: at prefill"),
    _gauge("decode_pending", "requests", "router: no token from decode yet, at prefill too"),
    _gauge("decode_active", "requests", "router: streaming from decode"),
    _rate("requests_rps", "requests", "req/s", "router: requests that came"),
    _count("prefill_errors", "router: failed at prefill"),
    _count("decode_errors", "router: failed at decode"),
    _count("stream_errors", "router: broken streams"),
    _count("retries", "router: tried again"),
    _gauge("healthy", "workers", "router: workers it holds for healthy"),
)  # fmt: skip
BY_SERIES_NAME = {metric.name: metric for metric in SERIES_METRICS}
