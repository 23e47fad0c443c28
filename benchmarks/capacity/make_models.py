"""Makes model folders without weights, for `--load-format dummy`.

The hybrids have one layer's geometry of Qwen3.5-397B-A17B (hidden 4096, 32 query heads, 2 KV heads
of 256, GDN with 16 key and 64 value heads of 128, convolution over 4) and few layers and experts;
`attention-4` has attention layers only. Needs `tokenizers`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 248320
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>")
SPECIAL += ("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
# Layer kinds in order: g is a GDN layer, a is an attention layer.
HYBRIDS = {
    "hybrid-4": "ggga",
    "hybrid-8": "ggga" * 2,
    "hybrid-12": "ggga" * 3,
    "hybrid-7-uneven": "gagagag",
    "hybrid-9-uneven": "ggga" * 2 + "g",
    "hybrid-8-dense": "ggga" * 2,
}


def main() -> None:
    """Writes every model folder under the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    tokenizer = _tokenizer()
    for name, layers in HYBRIDS.items():
        config = hybrid_config(layers, dense=name.endswith("dense"), tokenizer=tokenizer)
        _write(folder / name, config, tokenizer)
    _write(folder / "attention-4", attention_config(), tokenizer)


def hybrid_config(layers: str, *, dense: bool, tokenizer: Tokenizer) -> dict[str, Any]:
    """config.json of a Qwen3.5 hybrid, with a vision tower as small as vLLM accepts."""
    kind = "qwen3_5" if dense else "qwen3_5_moe"
    text: dict[str, Any] = {
        "model_type": f"{kind}_text",
        "vocab_size": VOCABULARY,
        "hidden_size": 4096,
        "num_hidden_layers": len(layers),
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "hidden_act": "silu",
        "max_position_embeddings": 262144,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000.0,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
        "partial_rotary_factor": 0.25,
        "attention_bias": False,
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "layer_types": [
            "full_attention" if layer == "a" else "linear_attention" for layer in layers
        ],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "mamba_ssm_dtype": "float32",
        "dtype": "bfloat16",
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
    }
    if dense:
        text["intermediate_size"] = 4096
    else:
        text |= {"moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024}
        text |= {"num_experts": 32, "num_experts_per_tok": 10, "norm_topk_prob": True}
    return {
        "architectures": [f"Qwen3_5{'' if dense else 'Moe'}ForConditionalGeneration"],
        "model_type": kind,
        "dtype": "bfloat16",
        "text_config": text,
        "vision_config": _vision(kind),
        "tie_word_embeddings": False,
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
    }


def attention_config() -> dict[str, Any]:
    """config.json of a dense Qwen3 of four attention layers."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": 4096,
        "intermediate_size": 4096,
        "num_hidden_layers": 4,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_act": "silu",
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
    }


def _vision(kind: str) -> dict[str, Any]:
    return {
        "model_type": kind,
        "depth": 2,
        "hidden_size": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "intermediate_size": 512,
        "num_heads": 4,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 4096,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [],
    }


def _tokenizer() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    # Fillers, so that every id a model of random weights emits can be decoded.
    vocabulary |= {f"<f{i}>": i for i in range(264, VOCABULARY)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def _write(folder: Path, config: dict[str, Any], tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    processor = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    pictures = {"longest_edge": 16777216, "shortest_edge": 65536}
    films = {"longest_edge": 25165824, "shortest_edge": 4096}
    documents: dict[str, dict[str, Any]] = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 262144,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
        "generation_config.json": {"eos_token_id": tokenizer.token_to_id("<|im_end|>")},
        "preprocessor_config.json": processor
        | {"image_processor_type": "Qwen2VLImageProcessorFast", "size": pictures},
        "video_preprocessor_config.json": processor
        | {"video_processor_type": "Qwen3VLVideoProcessor", "size": films},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
