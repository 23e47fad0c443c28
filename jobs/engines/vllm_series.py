"""vLLM's and vllm-router's metrics that are sampled during a run, by the project's words.

Names as in vLLM 0.32 v1/metrics/loggers.py and distributed/kv_transfer/kv_connector/v1/nixl/
stats.py, and on the pages of 0.26 to 0.33; what a release lacks stays missing. Counters are since
the engine's start.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobs.series_page import Family

WAITING = "vllm:num_requests_waiting_by_reason"
FETCH = "vllm:num_requests_kv_fetch_by_stage"
BY_SOURCE = "vllm:prompt_tokens_by_source_total"

ENGINE_SERIES: Mapping[str, Family] = {
    "cpu_s": Family("process_cpu_seconds_total"),
    "memory_bytes": Family("process_resident_memory_bytes"),
    "running": Family("vllm:num_requests_running"),
    "waiting": Family("vllm:num_requests_waiting"),
    "waiting_deferred": Family(WAITING, ("reason", "deferred")),
    "fetch_waiting": Family(FETCH, ("stage", "waiting_to_start")),
    "fetching": Family(FETCH, ("stage", "in_progress")),
    "fetched_waiting": Family(FETCH, ("stage", "completed_waiting")),
    "kv_usage": Family("vllm:kv_cache_usage_perc"),
    "prompt_tokens": Family("vllm:prompt_tokens_total"),
    "computed_tokens": Family(BY_SOURCE, ("source", "local_compute")),
    "cached_tokens": Family(BY_SOURCE, ("source", "local_cache_hit")),
    "external_tokens": Family(BY_SOURCE, ("source", "external_kv_transfer")),
    "generation_tokens": Family("vllm:generation_tokens_total"),
    "preemptions": Family("vllm:num_preemptions_total"),
    "finished": Family("vllm:request_success_total"),
    "queue_s": Family("vllm:request_queue_time_seconds_sum"),
    "queued": Family("vllm:request_queue_time_seconds_count"),
    "prefill_s": Family("vllm:request_prefill_time_seconds_sum"),
    "decode_s": Family("vllm:request_decode_time_seconds_sum"),
    "steps": Family("vllm:iteration_tokens_total_count"),
    "step_tokens": Family("vllm:iteration_tokens_total_sum"),
    "transfers": Family("vllm:nixl_xfer_time_seconds_count"),
    "transfer_s": Family("vllm:nixl_xfer_time_seconds_sum"),
    "transfer_bytes": Family("vllm:nixl_bytes_transferred_sum"),
    "transfers_failed": Family("vllm:nixl_num_failed_transfers_total"),
    "kv_expired": Family("vllm:nixl_num_kv_expired_reqs_total"),
    "external_queries": Family("vllm:external_prefix_cache_queries_total"),
    "external_hits": Family("vllm:external_prefix_cache_hits_total"),
    "prefix_queries": Family("vllm:prefix_cache_queries_total"),
    "prefix_hits": Family("vllm:prefix_cache_hits_total"),
}
"""`cpu_s` and `memory_bytes` are the API server's own process (no engine label); a release that
runs several API servers behind one address does not tell them."""

AGGREGATE = ("rank", "aggregate")
ROUTER_SERIES: Mapping[str, Family] = {
    "running": Family("vllm_router_running_requests"),
    "prefill_active": Family("vllm_router_pd_prefill_occupancy", AGGREGATE),
    "decode_pending": Family("vllm_router_pd_pending_decode_requests", AGGREGATE),
    "decode_active": Family("vllm_router_pd_active_decode_requests", AGGREGATE),
    "requests": Family("vllm_router_pd_requests_total"),
    "prefill_requests": Family("vllm_router_pd_prefill_requests_total"),
    "decode_requests": Family("vllm_router_pd_decode_requests_total"),
    "prefill_errors": Family("vllm_router_pd_prefill_errors_total"),
    "decode_errors": Family("vllm_router_pd_decode_errors_total"),
    "stream_errors": Family("vllm_router_pd_stream_errors_total"),
    "retries": Family("vllm_router_retries_total"),
    "healthy": Family("vllm_router_worker_health"),
    "decode_pending_s": Family("vllm_router_pd_decode_pending_seconds_sum"),
}
"""vllm-router 0.1.17, summed over its workers."""
