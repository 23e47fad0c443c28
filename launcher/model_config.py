"""A model's facts from its own config.json, to fill what conf/model leaves open and to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.schema import ModelConfig

NESTED = ("text_config", "llm_config", "language_config")
PLAIN = {
    "layers": ("num_hidden_layers",),
    "hidden_size": ("hidden_size",),
    "attention_heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads", "num_attention_heads"),
    "gdn_value_heads": ("linear_num_value_heads",),
    "gdn_key_heads": ("linear_num_key_heads",),
    "gdn_conv_kernel": ("linear_conv_kernel_dim",),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "experts_per_token": ("num_experts_per_tok",),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "mtp_layers": ("mtp_num_hidden_layers", "num_nextn_predict_layers"),
    "max_position": ("max_position_embeddings",),
    "dtype": ("dtype", "torch_dtype"),
}
QUANTISED_KV = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def facts_of(config: Mapping[str, Any], quantisation: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that config.json states, by the names of model.facts; absent ones are left out.

    Composite models nest the language model's numbers (text_config, as in Qwen3.5).
    `quantisation` is hf_quant_config.json's content, or quantization_config of config.json.
    """
    text = language_part(config)
    facts: dict[str, Any] = {}
    for name, keys in PLAIN.items():
        value = next((text[key] for key in keys if text.get(key) is not None), None)
        if value is None and name == "dtype":
            value = next((config[key] for key in keys if config.get(key) is not None), None)
        if value is not None:
            facts[name] = value
    facts |= _head_dims(text, facts)
    facts |= _layer_kinds(text, facts)
    if facts.get("gdn_layers"):
        state = text.get("mamba_ssm_dtype") or facts.get("dtype")
        if state:
            facts["ssm_dtype"] = state
    kv = _kv_dtype(quantisation)
    if kv is not None:
        facts["kv_cache_dtype"] = kv
    return facts


def language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping that holds the language model's numbers."""
    for name in NESTED:
        if isinstance(config.get(name), Mapping):
            return {**config, **config[name]}
    return config


def _head_dims(text: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    dims: dict[str, Any] = {}
    if text.get("head_dim"):
        dims["head_dim"] = text["head_dim"]
    elif facts.get("hidden_size") and facts.get("attention_heads"):
        dims["head_dim"] = facts["hidden_size"] // facts["attention_heads"]
    value = text.get("linear_value_head_dim")
    if value is not None and value == text.get("linear_key_head_dim"):
        dims["gdn_head_dim"] = value
    return dims


def _layer_kinds(text: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, int]:
    """Full-attention and linear-attention layers, by layer_types or full_attention_interval."""
    layers = facts.get("layers")
    if layers is None:
        return {}
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and kinds:
        if set(kinds) - {"full_attention", "linear_attention"}:
            return {}  # sliding windows and others: their memory is not computed
        linear = kinds.count("linear_attention")
    elif text.get("sliding_window") and text.get("use_sliding_window", True):
        return {}
    elif "linear_num_value_heads" in text:
        interval = text.get("full_attention_interval") or 4
        linear = layers - layers // interval
    else:
        linear = 0
    return {"attention_layers": layers - linear, "gdn_layers": linear}


def _kv_dtype(quantisation: Mapping[str, Any]) -> str | None:
    """What kv-cache-dtype auto becomes: utils/torch_utils.py get_kv_cache_quant_algo_string.

    None where a checkpoint is quantised by a method whose declaration is not read here.
    """
    if not quantisation:
        return "auto"
    inner = quantisation.get("quantization", quantisation)
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        declared = inner.get(key) or quantisation.get(key)
        if isinstance(declared, Mapping):
            bits = {8: "fp8", 4: "nvfp4"}.get(declared.get("num_bits", 0))
            declared = bits if declared.get("type") == "float" else None
        if isinstance(declared, str):
            return QUANTISED_KV.get(declared.lower(), "auto")
    method = str(quantisation.get("quant_method", ""))
    return "auto" if method.startswith("modelopt") or "quantization" in quantisation else None


def differences(model: ModelConfig, facts: Mapping[str, Any]) -> Iterator[str]:
    """Facts of conf/model that the model's own config.json contradicts, both values named."""
    for name, theirs in facts.items():
        ours = getattr(model.facts, name)
        if ours is not None and not _same(ours, theirs):
            yield (
                f"model.facts.{name}={ours}: {model.path}/config.json says {theirs}; is "
                "model.path the model that is meant? correct one of them"
            )


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, str):
        return str(ours).removeprefix("torch.") == theirs.removeprefix("torch.")
    return bool(ours == theirs)
