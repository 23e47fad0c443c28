"""vLLM's protocol (0.26 to 0.33): the only file of the job that knows its words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.engines.dialect import Answer, EngineCounters, Load, StartUp
from jobs.engines.vllm_causes import CAUSES
from jobs.engines.vllm_logs import MARKS, NOISE, PERCENT, PHASES
from jobs.engines.vllm_series import ENGINE_SERIES, ROUTER_SERIES
from jobs.prometheus import Sample, parse_metrics

TOP = 20
"""Candidates per token: vLLM's own limit of logprobs."""

NEEDED_TO_DECODE = ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")
"""Without one of these decode silently computes the prompt itself (a slow run, not an error)."""

BY_SOURCE = "vllm:prompt_tokens_by_source_total"
NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "prompt_tokens": ("vllm:prompt_tokens_total", {}),
    "local_tokens": (BY_SOURCE, {"source": "local_compute"}),
    "cached_tokens": (BY_SOURCE, {"source": "local_cache_hit"}),
    "external_tokens": (BY_SOURCE, {"source": "external_kv_transfer"}),
    "generation_tokens": ("vllm:generation_tokens_total", {}),
    "kv_bytes": ("vllm:nixl_bytes_transferred_sum", {}),
    "kv_transfers": ("vllm:nixl_bytes_transferred_count", {}),
    "kv_failed": ("vllm:nixl_num_failed_transfers_total", {}),
    "kv_expired": ("vllm:nixl_num_kv_expired_reqs_total", {}),
    "preemptions": ("vllm:num_preemptions_total", {}),
}
"""Failed notifications are a subset of failed transfers and are not added to them."""

LOAD_NAMES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
)


class VllmDialect:
    """Dialect of `vllm serve`, and of stand-ins that speak like it."""

    health_path = "/health"
    models_path = "/v1/models"
    metrics_path = "/metrics"
    completions_path = "/v1/completions"
    phases: Sequence[str] = PHASES
    side_channel_greeting_bytes = 10
    causes = CAUSES
    engine_series = ENGINE_SERIES
    router_series = ROUTER_SERIES

    def start_up(self, line: str) -> StartUp | None:
        """The phase of a log line; the most advanced one where several match."""
        for phase, words in MARKS:
            if words.search(line):
                percent = PERCENT.search(line)
                return StartUp(phase, int(percent[1]) if percent else None)
        return None

    def is_noise(self, line: str) -> bool:
        """Access log, routes, banner, periodic statistics, empty lines."""
        return not line.strip() or bool(NOISE.search(line))

    def rank_headers(self, index: int, served: int) -> dict[str, str]:
        """X-data-parallel-rank counts the ranks one API server serves, from 0 (vLLM 0.32
        v1/engine/input_processor.py: num_ranks is the local size unless it serves all)."""
        return {"X-data-parallel-rank": str(index)} if served > 1 else {}

    def served_models(self, payload: Any) -> list[str]:
        """Ids in /v1/models."""
        entries = payload.get("data", []) if isinstance(payload, dict) else []
        return [str(entry.get("id")) for entry in entries if isinstance(entry, dict)]

    def engines(self, samples: Sequence[Sample]) -> list[str]:
        """Values of the `engine` label, in numeric order."""
        found = {s.labels["engine"] for s in samples if s.labels.get("engine", "").isdecimal()}
        return sorted(found, key=int)

    def counters(self, samples: Sequence[Sample], engine: str | None = None) -> EngineCounters:
        """Sums over engines, or one engine's."""
        values: dict[str, float | None] = {}
        for field, (name, labels) in NAMES.items():
            fitting = [
                s.value
                for s in samples
                if s.name == name
                and labels.items() <= s.labels.items()
                and engine in (None, s.labels.get("engine"))
            ]
            values[field] = sum(fitting) if fitting else None
        return EngineCounters(**values)

    def loads(self, page: str) -> dict[str, Load]:
        """num_requests_running and _waiting, and the sum of the two token counters."""
        lines = [line for line in page.splitlines() if line.startswith(LOAD_NAMES)]
        sums: dict[str, dict[str, float]] = {}
        for sample in parse_metrics("\n".join(lines)):
            engine = sums.setdefault(sample.labels.get("engine", "0"), {})
            engine[sample.name] = engine.get(sample.name, 0.0) + sample.value
        running, waiting, *tokens = LOAD_NAMES
        return {
            engine: Load(
                running=found.get(running, 0.0),
                waiting=found.get(waiting, 0.0),
                tokens=sum(found.get(name, 0.0) for name in tokens),
            )
            for engine, found in sums.items()
        }

    def is_side_channel(self, greeting: bytes) -> bool:
        """NIXL's metadata listener is a ZeroMQ socket (vLLM 0.26-0.33, nixl/base_scheduler.py),
        which opens every connection with ZMTP's signature (rfc.zeromq.org/spec/23)."""
        return len(greeting) == 10 and greeting[0] == 0xFF and greeting[9] == 0x7F

    def plain(self, model: str, prompt: Sequence[int], tokens: int) -> dict[str, Any]:
        """Greedy, of fixed length, with token ids and the top 20."""
        return {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": False,
            "logprobs": TOP,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

    def prefill(self, model: str, prompt: Sequence[int]) -> dict[str, Any]:
        """One token, and the blocks kept for a decode worker to read."""
        return {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": 1,
            "min_tokens": 1,
            "temperature": 0.0,
            "stream": False,
            "kv_transfer_params": {
                "do_remote_decode": True,
                "do_remote_prefill": False,
                "remote_engine_id": None,
                "remote_block_ids": None,
                "remote_host": None,
                "remote_port": None,
            },
        }

    def decode(
        self, model: str, prompt: Sequence[int], tokens: int, transfer: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The plain request with prefill's kv_transfer_params."""
        return {**self.plain(model, prompt, tokens), "kv_transfer_params": dict(transfer)}

    def read_answer(self, payload: Any) -> Answer:
        """First choice of a completion; log probabilities where they were asked for."""
        try:
            choice = payload["choices"][0]
            logprobs = choice.get("logprobs") or {}
            usage = payload.get("usage") or {}
            transfer = payload.get("kv_transfer_params")
            return Answer(
                token_ids=[int(token) for token in choice.get("token_ids") or []],
                tops=[dict(top or {}) for top in logprobs.get("top_logprobs") or []],
                chosen=[str(token) for token in logprobs.get("tokens") or []],
                transfer=transfer if isinstance(transfer, dict) else None,
                prompt_tokens=usage.get("prompt_tokens"),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not a completion: {str(payload)[:300]}") from error

    def transfer_problem(self, transfer: Mapping[str, Any] | None) -> str | None:
        """Missing pieces of kv_transfer_params."""
        if transfer is None:
            return "prefill handed nothing over (no kv_transfer_params in its answer)"
        missing = [key for key in NEEDED_TO_DECODE if not transfer.get(key)]
        return f"prefill's kv_transfer_params lack {', '.join(missing)}" if missing else None

    def is_first_contact_failure(self, text: str) -> bool:
        """A handshake can time out under load on first contact (5 s); the next attempt works."""
        return bool(
            re.search(
                r"handshake|KV load failure|internal ?(?:server ?)?error", text, re.IGNORECASE
            )
        )
