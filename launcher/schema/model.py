"""The group `model`: what is served, and the numbers that capacity and estimates need of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class ModelFacts:
    """Architecture numbers of a model, from which capacity is computed. null = not applicable."""

    layers: int | None = None
    attention_layers: int | None = None
    gdn_layers: int | None = None
    hidden_size: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    gdn_value_heads: int | None = None
    gdn_key_heads: int | None = None
    gdn_head_dim: int | None = None
    gdn_conv_kernel: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    shared_experts: int | None = None
    moe_intermediate_size: int | None = None
    mtp_layers: int | None = None
    max_position: int | None = None
    dtype: str | None = None
    """Dtype of weights that are not quantised, and of activations (HF config dtype)."""
    kv_cache_dtype: str | None = None
    """What kv-cache-dtype `auto` stands for: fp8 or nvfp4 where the checkpoint declares it
    (kv_cache_quant_algo), auto where it is known to declare nothing."""
    ssm_dtype: str | None = None
    """State dtype that `auto` stands for (HF config mamba_ssm_dtype)."""
    expert_params: float | None = None
    """Parameters in routed experts."""
    other_params: float | None = None
    """All other parameters, MTP left out."""
    expert_bytes_per_param: float | None = None
    other_bytes_per_param: float | None = None


@dataclass
class ExpectedConfig:
    """What the estimate of a run's time assumes; null: not known, and then there is none."""

    tokens_per_s_per_gpu: float | None = None
    """Total tokens (input + output) per second and serving GPU at saturation."""
    tpot_ms: float | None = None
    """Milliseconds per output token of one stream on an idle deployment."""
    start_s: float | None = None
    """Seconds until all workers serve; null: a third of cluster.budgets.start_s."""


@dataclass
class ModelConfig:
    """What is served."""

    served_name: str = MISSING
    path: str = MISSING
    """Local (or staged) folder with config.json, tokenizer and weights."""
    tokenizer: str | None = None
    """Tokenizer folder; null: `path`."""
    vocab_size: int = MISSING
    hybrid: bool = False
    """Whether it has linear-attention (GDN, Mamba) layers."""
    flags: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    gsm8k_reference: float | None = None
    """Published GSM8K accuracy under the protocol of accuracy=gsm8k (0..1)."""
    facts: ModelFacts = field(default_factory=ModelFacts)
    expected: ExpectedConfig = field(default_factory=ExpectedConfig)
    sources: dict[str, str] = field(default_factory=dict)
    """Where each number comes from."""
    unconfirmed: list[str] = field(default_factory=list)
    """What no source confirms."""
