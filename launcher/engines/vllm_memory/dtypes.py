"""Bytes of cache elements by the words of vLLM's flags."""

from __future__ import annotations

from launcher.engines.vllm_memory.settings import Settings
from launcher.engines.vllm_memory.unknown import UnknownError, known
from launcher.schema import ModelFacts

DTYPE_BYTES = {
    **dict.fromkeys(("float32", "float"), 4),
    **dict.fromkeys(("bfloat16", "float16", "half"), 2),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"), 1),
}
NVFP4 = ("nvfp4", "nvfp4_4over6")


def model_dtype(settings: Settings, facts: ModelFacts) -> str:
    """Dtype of activations: --dtype, else the checkpoint's own (config.json `dtype`)."""
    if settings.dtype not in (None, "auto"):
        return str(settings.dtype)
    return known(facts.dtype, "model.facts.dtype (config.json dtype)")


def kv_dtype(settings: Settings, facts: ModelFacts) -> str:
    """What --kv-cache-dtype stands for: `auto` is the checkpoint's declaration or its dtype.

    vLLM maps kv_cache_quant_algo and kv_cache_scheme of ModelOpt checkpoints to fp8 or nvfp4
    (utils/torch_utils.py); model.facts.kv_cache_dtype holds that word, `auto` where there is none.
    """
    if settings.kv_dtype != "auto":
        return settings.kv_dtype
    if facts.kv_cache_dtype not in (None, "auto"):
        return str(facts.kv_cache_dtype)
    if facts.kv_cache_dtype is None and (facts.expert_bytes_per_param or 2) < 2:
        raise UnknownError(
            "kv-cache-dtype=auto takes what a quantised checkpoint declares, and "
            "model.facts.kv_cache_dtype is not set: set it, or pass kv-cache-dtype"
        )
    return model_dtype(settings, facts)


def kv_bytes_per_token(dtype: str, heads: int, head_dim: int) -> int:
    """Bytes of one token's K and V in one attention layer.

    NVFP4 packs two values a byte with one scale per 16 (utils/torch_utils.py
    nvfp4_kv_cache_full_dim). Packed formats with scales of their own are not computed.
    """
    if dtype in NVFP4:
        return 2 * heads * (head_dim // 2 + head_dim // 16)
    if dtype not in DTYPE_BYTES:
        raise UnknownError(f"kv-cache-dtype={dtype}: its packing is not computed here")
    return 2 * heads * head_dim * DTYPE_BYTES[dtype]


def state_dtypes(settings: Settings, facts: ModelFacts) -> tuple[str, str]:
    """Dtypes of the convolution's and the recurrent state.

    --mamba-cache-dtype, auto = the model's dtype; --mamba-ssm-cache-dtype, auto = config.json's
    mamba_ssm_dtype (model_executor/models/config.py, Qwen3_5ForConditionalGenerationConfig).
    """
    conv = settings.conv_dtype
    conv = model_dtype(settings, facts) if conv == "auto" else conv
    ssm = settings.ssm_dtype
    if ssm == "auto":
        ssm = known(facts.ssm_dtype, "model.facts.ssm_dtype (config.json mamba_ssm_dtype)")
    for word in (conv, ssm):
        if word not in DTYPE_BYTES:
            raise UnknownError(f"state dtype {word}: allowed: float32, float16, bfloat16")
    return conv, ssm
