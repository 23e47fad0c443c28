"""Every limit a verdict uses, declared once: its value, what it is of, and why that much."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A limit. `makes` is the verdict on its wrong side."""

    name: str
    value: float
    unit: str
    makes: str
    why: str


def _limit(name: str, value: float, unit: str, makes: str, why: str) -> Threshold:
    return Threshold(name=name, value=value, unit=unit, makes=makes, why=why)


NO_TRANSFER = _limit(
    "external_kv_share_low", 0.05, "share of prompt tokens", "INVALID",
    "below it decode computed the prompts itself: the deployment is not disaggregated",
)  # fmt: skip
PART_TRANSFER = _limit(
    "external_kv_share", 0.9, "share of prompt tokens", "SUSPECT",
    "a full transfer leaves one token a prompt to decode; below it part of prefill ran on decode",
)  # fmt: skip
LENGTH_DRIFT = _limit(
    "length_drift", 0.02, "share of the mean length, beside 4 standard errors", "INVALID",
    "re-encoded random ids drift by 0.1 to 0.3 %, a foreign tokenizer or an early stop by far more",
)  # fmt: skip
LENGTH_SLACK = _limit(
    "length_slack", 2, "tokens a request", "INVALID",
    "special tokens that a tokenizer adds; the first token that a prefill server makes",
)  # fmt: skip
COUNT_DISAGREEMENT = _limit(
    "count_disagreement", 0.01, "share of the tokens, beside length_slack a request", "INVALID",
    "real vLLM servers and client agreed to the token (H200 and CPU runs); a point measured beside "
    "other traffic, or with a wrong usage field, does not",
)  # fmt: skip
CLOCK_SLACK = _limit(
    "clock_slack", 2.0, "s", "INVALID",
    "wall clock and the client's own clock are read by two processes, whole seconds in some tools",
)  # fmt: skip
RATE_DISAGREEMENT = _limit(
    "rate_disagreement", 0.02, "share", "INVALID",
    "duration, counts and rates of one result are one division; what differs used another span",
)  # fmt: skip
OVER_CONCURRENCY = _limit(
    "over_concurrency", 1.05, "mean requests in flight / concurrency", "INVALID",
    "by Little's law completed x mean E2E / duration is the mean number in flight: more than asked "
    "for means that the duration or the latencies are wrong",
)  # fmt: skip
REACHED_CONCURRENCY = _limit(
    "reached_concurrency", 0.9, "of the concurrency asked for", "SUSPECT",
    "a closed loop keeps every stream busy; below it requests waited in the client or the router",
)  # fmt: skip
REACHED_RATE = _limit(
    "reached_rate", 0.9, "of the measured span: requests / rate + p99 E2E", "SUSPECT",
    "an open loop's last request is due at requests / rate; a span that is longer was not sent at "
    "the rate that the row names",
)  # fmt: skip
QUEUE_SHARE = _limit(
    "client_queue", 0.1, "mean wait in the client / mean E2E", "SUSPECT",
    "time in the client's queue is outside TTFT and E2E; above a tenth it changes what they mean",
)  # fmt: skip
CLIENT_CPU = _limit(
    "client_cpu_share", 0.8, "of one core, busiest process", "SUSPECT",
    "a single event loop near one core falls behind: an aiohttp client at 5,120 streams adds "
    "seconds to TTFT before its mean load shows",
)  # fmt: skip
LOOP_LAG = _limit(
    "client_loop_lag_p99", 0.05, "of the median TTFT (at least 10 ms)", "SUSPECT",
    "what the client's loop lags behind is added to every time stamp it takes",
)  # fmt: skip
TTFT_ADDED = _limit(
    "ttft_client_added_p99", 0.05, "of the p99 TTFT (at least 10 ms)", "SUSPECT",
    "bytes that lie ready in the socket are time of the client, not of the servers",
)  # fmt: skip
LAG_FLOOR_MS = _limit(
    "client_lag_floor", 10.0, "ms", "SUSPECT", "scheduling noise of a shared machine stays below",
)  # fmt: skip
COLD_WAVE = _limit(
    "cold_first_wave", 3.0, "mean TTFT of the first wave / of the later ones", "SUSPECT",
    "a first wave of `concurrency` prompts queues for prefill even on a warm server, up to about "
    "twice a later one; compilation of shapes makes it 5 to 30 times",
)  # fmt: skip
PROMPTS_PER_STREAM = _limit(
    "prompts_per_stream", 4, "requests / concurrency", "SUSPECT",
    "ramp-up and drain are about 1/k of a span of k requests a stream; the article sends 8, "
    "InferenceX 10",
)  # fmt: skip
WARM_CACHE = _limit(
    "prefix_cache_share", 0.05, "share of prompt tokens", "SUSPECT",
    "random prompts share nothing but a few template tokens: more means that they were seen before",
)  # fmt: skip
UNSTEADY = _limit(
    "unsteady", 0.2, "change of the median E2E between halves, edge waves left out", "SUSPECT",
    "the halves of a steady span differ by what two repeats differ by, a few per cent",
)  # fmt: skip
ACCURACY_CUT = _limit(
    "accuracy_cut_rate", 0.05, "share of the answers", "INVALID",
    "answers that ended at the token limit were not finished: the score is of the limit",
)  # fmt: skip
COLLAPSE_ACCURACY = _limit(
    "accuracy_collapse", 0.5, "accuracy, beside accuracy_invalid_rate exceeded", "INVALID",
    "an engine that reads recurrent state before it has arrived scored 0.1 to 0.5 with up to 35 % "
    "of the answers without a number; a weaker checkpoint loses a few points and still answers",
)  # fmt: skip
ACCURACY_INVALID = _limit(
    "accuracy_invalid_rate", 0.05, "share of the answers", "SUSPECT",
    "a good model leaves under 1 % of the answers without a number",
)  # fmt: skip

THRESHOLDS = tuple(value for value in globals().values() if isinstance(value, Threshold))
