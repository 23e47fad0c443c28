"""Facts read from a model's own config.json: nested or flat, filled in, compared, never guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.model_config import facts_of
from launcher.model_files import fact_problems, fill_facts
from launcher.schema import LaunchConfig, ModelFacts
from tests.compose import config_of

HYBRID: dict[str, Any] = {
    "num_hidden_layers": 8, "hidden_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "full_attention_interval": 4,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 64,
    "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32",
    "num_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768,
    "dtype": "bfloat16", "vocab_size": 2048,
}  # fmt: skip
EXPECTED = {
    "layers": 8, "attention_layers": 2, "gdn_layers": 6, "kv_heads": 2, "head_dim": 64,
    "gdn_value_heads": 4, "gdn_key_heads": 2, "gdn_head_dim": 64, "gdn_conv_kernel": 4,
    "experts": 8, "experts_per_token": 2, "max_position": 32768, "dtype": "bfloat16",
    "ssm_dtype": "float32", "kv_cache_dtype": "auto", "hidden_size": 128, "attention_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize("nest", [None, "text_config", "llm_config", "language_config"])
def test_the_language_models_numbers_are_found_nested_or_flat(nest: str | None) -> None:
    config = HYBRID if nest is None else {"model_type": "x", nest: HYBRID}
    assert facts_of(config, {}) == EXPECTED


def test_a_dtype_outside_the_nested_part_counts_and_the_inner_one_wins() -> None:
    inner = {key: value for key, value in HYBRID.items() if key != "dtype"}
    assert facts_of({"torch_dtype": "float16", "text_config": inner}, {})["dtype"] == "float16"
    assert facts_of({"dtype": "float16", "text_config": HYBRID}, {})["dtype"] == "bfloat16"


def test_layer_types_outweigh_the_interval() -> None:
    kinds = ["linear_attention"] * 5 + ["full_attention"] * 3
    facts = facts_of({**HYBRID, "layer_types": kinds}, {})
    assert (facts["attention_layers"], facts["gdn_layers"]) == (3, 5)


@pytest.mark.parametrize(
    "more",
    [
        {"layer_types": ["sliding_attention", "full_attention"] * 4},
        {"sliding_window": 4096, "linear_num_value_heads": None},
    ],
)
def test_layers_of_other_kinds_are_left_unknown(more: dict[str, Any]) -> None:
    dense = {key: value for key, value in HYBRID.items() if not key.startswith("linear")}
    assert "attention_layers" not in facts_of({**dense, **more}, {})


def test_a_dense_model_without_head_dim_or_kv_heads_gets_the_usual_meaning() -> None:
    facts = facts_of({"num_hidden_layers": 4, "hidden_size": 96, "num_attention_heads": 6}, {})
    assert (facts["kv_heads"], facts["head_dim"]) == (6, 16)
    assert (facts["attention_layers"], facts["gdn_layers"]) == (4, 0)
    assert "ssm_dtype" not in facts


@pytest.mark.parametrize(
    ("quantisation", "word"),
    [
        ({}, "auto"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}, "fp8_e4m3"),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}}, "auto"),
        (
            {"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            "fp8_e4m3",
        ),
        (
            {"quant_method": "modelopt_fp4", "kv_cache_scheme": {"num_bits": 4, "type": "float"}},
            "nvfp4",
        ),
        ({"quant_method": "compressed-tensors"}, None),
    ],
)
def test_a_checkpoints_kv_declaration_is_read(
    quantisation: dict[str, Any], word: str | None
) -> None:
    assert facts_of(HYBRID, quantisation).get("kv_cache_dtype") == word


@pytest.fixture(scope="module")
def composed() -> LaunchConfig:
    return config_of("engine=vllm_cpu", "cluster=local", "model=tiny_qwen3_5")


def model_at(composed: LaunchConfig, folder: Path, text: str, facts: ModelFacts) -> LaunchConfig:
    """The configuration with a model folder of the given config.json."""
    (folder / "config.json").write_text(text)
    composed.model.path, composed.model.facts, composed.model.vocab_size = str(folder), facts, 2048
    composed.cluster.login_sees_models = True
    return composed


def test_open_facts_are_filled_and_set_ones_kept(composed: LaunchConfig, tmp_path: Path) -> None:
    text = json.dumps({"text_config": HYBRID})
    config = model_at(composed, tmp_path, text, ModelFacts(kv_heads=16))
    fill_facts(config)
    assert config.model.facts.kv_heads == 16
    assert config.model.facts.gdn_layers == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [("kv_heads", 16), ("gdn_layers", 5), ("dtype", "float16"), ("ssm_dtype", "bfloat16")],
)
def test_a_contradiction_names_both_values(
    composed: LaunchConfig, tmp_path: Path, name: str, value: Any
) -> None:
    text = json.dumps({"text_config": HYBRID})
    config = model_at(composed, tmp_path, text, ModelFacts(**{name: value}))
    (problem,) = fact_problems(config)
    assert f"model.facts.{name}={value}" in problem
    assert f"config.json says {EXPECTED[name]}" in problem


def test_another_vocabulary_is_a_contradiction_too(composed: LaunchConfig, tmp_path: Path) -> None:
    config = model_at(composed, tmp_path, json.dumps(HYBRID), ModelFacts())
    config.model.vocab_size = 99
    (problem,) = fact_problems(config)
    assert "model.vocab_size=99" in problem
    assert "says 2048" in problem


@pytest.mark.parametrize("text", ["", "[1, 2]", "{broken", '"text"'])
def test_a_config_json_that_is_none_is_said(
    composed: LaunchConfig, tmp_path: Path, text: str
) -> None:
    config = model_at(composed, tmp_path, text, ModelFacts())
    fill_facts(config)
    assert any("not a JSON object" in problem for problem in fact_problems(config))


def test_a_folder_that_only_the_nodes_see_is_left_alone(
    composed: LaunchConfig, tmp_path: Path
) -> None:
    config = model_at(composed, tmp_path, json.dumps(HYBRID), ModelFacts(kv_heads=16))
    config.cluster.login_sees_models = False
    fill_facts(config)
    assert config.model.facts.layers is None
    assert not list(fact_problems(config))
