"""Blocks, pages and groups: what one block id costs and how many a request takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launcher.engines.vllm_memory.dtypes import (
    DTYPE_BYTES,
    kv_bytes_per_token,
    kv_dtype,
    state_dtypes,
)
from launcher.engines.vllm_memory.releases import (
    checkpoints_prefill,
    kernel_block_tokens,
    rounds_to_kernel,
)
from launcher.engines.vllm_memory.settings import Settings
from launcher.engines.vllm_memory.unknown import UnknownError, known
from launcher.plan import Endpoint
from launcher.schema import ModelFacts

CHECKPOINT_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """The cache of one GPU. Layers are counted on that GPU."""

    kv_dtype: str
    state_dtypes: tuple[str, str] | None
    token_bytes: int
    """K and V of one token in one attention layer."""
    state_bytes: int
    """Convolution and recurrent state of one sequence in one linear-attention layer."""
    block_tokens: int
    attention_layers: int
    gdn_layers: int
    group_layers: int
    """Layers that share one block id; the last group of a kind may have fewer."""
    ids_per_state: int
    """Block ids a sequence holds in each group of linear-attention layers."""

    @property
    def page_bytes(self) -> int:
        """One block of one layer; a state's page is padded to the same size."""
        return self.block_tokens * self.token_bytes

    @property
    def block_bytes(self) -> int:
        """What one block id costs over the layers of a group."""
        return self.page_bytes * self.group_layers

    @property
    def attention_groups(self) -> int:
        """Groups of attention layers: each takes ids of its own for the same tokens."""
        return -(-self.attention_layers // self.group_layers)

    @property
    def state_groups(self) -> int:
        """Groups of linear-attention layers."""
        return -(-self.gdn_layers // self.group_layers)

    @property
    def state_ids(self) -> int:
        """Block ids of a sequence's states, whatever its length."""
        return self.state_groups * self.ids_per_state

    def ids(self, tokens: int) -> int:
        """Block ids of a sequence of so many tokens (v1/kv_cache_interface.py)."""
        return self.attention_groups * -(-tokens // self.block_tokens) + self.state_ids


def layout_of(endpoint: Endpoint, settings: Settings, facts: ModelFacts) -> CacheLayout:
    """The cache layout of one GPU of the endpoint; UnknownError where a number is missing."""
    if settings.context_parallel > 1:
        raise UnknownError("context parallelism is not computed here")
    heads = known(facts.kv_heads, "model.facts.kv_heads")
    dtype = kv_dtype(settings, facts)
    token = kv_bytes_per_token(
        dtype, max(1, heads // endpoint.tp), known(facts.head_dim, "model.facts.head_dim")
    )
    attention, gdn = _layers(endpoint, settings, facts)
    states = state_dtypes(settings, facts) if gdn else None
    state = _state_bytes(endpoint, settings, facts, states) if states else 0
    checkpoints = bool(gdn) and _checkpoints(settings, facts)
    return CacheLayout(
        kv_dtype=dtype,
        state_dtypes=states,
        token_bytes=token,
        state_bytes=state,
        block_tokens=_block_tokens(settings, token, state, checkpoints),
        attention_layers=attention,
        gdn_layers=gdn,
        group_layers=_group_layers(attention, gdn),
        ids_per_state=(2 if settings.prefix_caching else 1)
        + settings.draft_tokens
        + int(checkpoints),
    )


def _layers(endpoint: Endpoint, settings: Settings, facts: ModelFacts) -> tuple[int, int]:
    """Attention and linear-attention layers of the fullest pipeline stage."""
    attention = known(facts.attention_layers, "model.facts.attention_layers")
    if attention < 1:
        raise UnknownError("a model without attention layers is not computed")
    gdn = known(facts.gdn_layers, "model.facts.gdn_layers") if settings.hybrid else 0
    if settings.draft_method in ("mtp", "qwen3_5_mtp", "qwen3_next_mtp"):
        attention += known(facts.mtp_layers, "model.facts.mtp_layers")
    elif settings.draft_method not in (None, "ngram"):
        raise UnknownError(f"speculative-config method={settings.draft_method} is not computed")
    if endpoint.pp > 1 and gdn:
        raise UnknownError("a hybrid model over pipeline stages is not computed")
    return -(-attention // endpoint.pp), gdn


def _state_bytes(
    endpoint: Endpoint, settings: Settings, facts: ModelFacts, dtypes: tuple[str, str]
) -> int:
    """conv_dim x (kernel - 1 + drafts) and value_heads x dim x dim, over TP.

    model_executor/layers/mamba/mamba_utils.py gated_delta_net_state_shape.
    """
    where = "model.facts.gdn_{}"
    values = known(facts.gdn_value_heads, where.format("value_heads"))
    keys = known(facts.gdn_key_heads, where.format("key_heads"))
    dim = known(facts.gdn_head_dim, where.format("head_dim"))
    kernel = known(facts.gdn_conv_kernel, where.format("conv_kernel"))
    width = 2 * keys * dim + values * dim
    if width % endpoint.tp or values % endpoint.tp:
        raise UnknownError(f"{values} value heads do not divide by tp={endpoint.tp}")
    conv = width // endpoint.tp * (kernel - 1 + settings.draft_tokens)
    ssm = values // endpoint.tp * dim * dim
    return conv * DTYPE_BYTES[dtypes[0]] + ssm * DTYPE_BYTES[dtypes[1]]


def _checkpoints(settings: Settings, facts: ModelFacts) -> bool:
    """Whether FlashInfer's kernel stores states in mid-prefill: it is vLLM's choice on SM100."""
    return (
        settings.device == "cuda"
        and settings.prefix_caching
        and checkpoints_prefill(settings.release)
        and settings.gdn_backend in (None, "flashinfer")
        and facts.gdn_head_dim == 128
    )


def _block_tokens(settings: Settings, token: int, state: int, checkpoints: bool) -> int:
    """Attention block in tokens, large enough that its page holds a state.

    platforms/interface.py _align_hybrid_block_size of each release.
    """
    kernel = kernel_block_tokens(settings.release, settings.device)
    if not state:
        return settings.block_tokens
    step = max(kernel, settings.block_tokens)
    if checkpoints:
        step = math.lcm(step, CHECKPOINT_TOKENS)
    aligned = step * -(-state // (step * token))
    if rounds_to_kernel(settings.release):
        aligned = kernel * -(-aligned // kernel)
    return max(aligned, settings.block_tokens)


def _group_layers(attention: int, gdn: int) -> int:
    """Layers of one group: the rarer kind's number, unless the other is hardly more.

    v1/core/kv_cache_utils.py (0.33.0: kv_cache_planning.py) _get_kv_cache_groups_uniform_page_size:
    within a factor of 1.5 the larger number is taken and the other kind padded.
    """
    if not gdn or not attention:
        return max(attention, gdn)
    few, many = sorted((attention, gdn))
    return many if many < few * 1.5 else few
