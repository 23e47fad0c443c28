"""The group `workload`: the load."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING


@dataclass
class SharedPrefixConfig:
    """Beginnings that prompts have in common (source shared_prefix)."""

    tokens: int = 1024
    """Tokens of each prompt that it shares, special tokens and template included."""
    groups: int = 1
    """Different beginnings; a request has one of them at random."""


@dataclass
class MultiTurnConfig:
    """Sessions of several messages, sent to the chat endpoint (source multi_turn)."""

    turns: int = 4
    """User messages of a session; isl and osl are one turn's."""
    wait_s: float = 0.0
    """Seconds between an answer and the session's next message."""


@dataclass
class TraceConfig:
    """A recorded trace to be replayed (source trace): arrival times, lengths, shared blocks."""

    path: str | None = None
    """JSON lines in Mooncake's format: timestamp (ms), input_length, output_length, hash_ids."""
    speed: float = 1.0
    """Times are divided by it: 2 sends twice as fast."""
    block_tokens: int = 512
    """Tokens that one of hash_ids stands for."""


@dataclass
class GoodputConfig:
    """Limits of a good request; null: no limit. Goodput is the share of requests within them."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass
class WorkloadConfig:
    """The load: lengths in tokens, one point per concurrency."""

    isl: int = MISSING
    osl: int = MISSING
    range_definition: str = "inferencemax"
    """inferencemax: U[int(r*L), L]; vllm: U[floor(L(1-r)), ceil(L(1+r))]."""
    range_ratio: float = 1.0
    concurrency: list[int] = MISSING
    prompts_per_concurrency: float = 8.0
    warmup_per_concurrency: float = 1.0
    warmup_rate: float | None = None
    """Requests a second of the warm-up wave, as sa-bench sends it (250), at most `concurrency` at a
    time; null: a closed loop."""
    repeats: int = 1
    """How often each point is measured, each time with other prompts; 2 or more give intervals."""
    seed: int = 0
    """Point i uses seed + i, so that no point repeats another's prompts."""
    request_rate: float | None = None
    """Requests a second, at most `concurrency` at a time; null: a closed loop of `concurrency`."""
    burstiness: float = 1.0
    """Of request_rate: gamma shape of the gaps; 1: Poisson process, below: burstier."""
    client_processes: int = 0
    """Processes of the native client; 0: as many as the streams need (docs/load-client.md)."""
    stall_timeout_s: float = 900.0
    """Native client: a request during which nothing comes for so long has failed."""
    client: str | None = None
    """vllm_bench | native; null: engine.client."""
    vllm_bench_json: bool = False
    """Whether each point is also kept as the file that `vllm bench serve --save-result
    --save-detailed` writes: vllm-bench/<index>-<point>.json of the run directory."""
    request_timeout_s: float = 3600.0
    source: str = "random"
    """random | shared_prefix | multi_turn | trace (docs/prompts.md)."""
    prompt_form: str = "auto"
    """auto | text | ids. auto: text, and token ids where the engine has no tokenizer."""
    chat_template: bool = False
    """Whether a prompt is a user message in the model's chat template, which counts as part of
    it, sent as a completion: what the published benchmark's client does by default."""
    verify_prompts: str = "auto"
    """auto | all | a number: how many prompts of a new file are encoded again (docs/prompts.md)."""
    shared_prefix: SharedPrefixConfig = field(default_factory=SharedPrefixConfig)
    multi_turn: MultiTurnConfig = field(default_factory=MultiTurnConfig)
    trace: TraceConfig = field(default_factory=TraceConfig)
    goodput: GoodputConfig = field(default_factory=GoodputConfig)
