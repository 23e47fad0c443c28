"""Which of its tokenizers a vLLM server takes for a model (`--tokenizer-mode`).

As vLLM 0.32 resolves `auto`: by the architecture (vllm/config/model.py, ModelConfig), then by
Mistral's own files (vllm/tokenizers/registry.py, resolve_tokenizer_args), else transformers'
AutoTokenizer.
A mode that is not known here is the server's word: it is asked for by that name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AUTO = "auto"
HF = "hf"
MISTRAL = "mistral"
BY_ARCHITECTURE = {
    "MoonshotKimiaForCausalLM": "kimi_audio",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV4ForConditionalGeneration": "deepseek_v4",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "InklingForCausalLM": "inkling",
    "InklingForConditionalGeneration": "inkling",
}
MISTRAL_WEIGHTS = "consolidated*.safetensors"
MISTRAL_FILES = ("tekken.json", "tokenizer.model.v*")
SPLIT_AS_HF = frozenset({HF, "cohere", "kimi_k3", "inkling"})
"""Modes whose tokenizer is AutoTokenizer's; only chats are rendered otherwise."""
BASE_CLASS = frozenset({"internlm2", "step3_vl", "step3p7", "unlimited-ocr", "unlimited_ocr"})
"""Model types for which vLLM does not trust the class that the model names (registry.py)."""
RENDERED_IN_CODE = frozenset({"cohere", "kimi_k3", "inkling", "kimi_audio", MISTRAL})
"""Modes whose servers render a chat to ids in code of their own, without the chat template."""


def model_config(folder: Path) -> dict[str, Any]:
    """The model's config.json; empty where there is none that can be read."""
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def resolved_mode(folder: Path, given: str = AUTO) -> str:
    """The mode that a server started with `--tokenizer-mode given` has for this model."""
    if given.lower() != AUTO:
        return given.lower()
    named = model_config(folder).get("architectures")
    for architecture in named if isinstance(named, list) else ():
        if architecture in BY_ARCHITECTURE:
            return BY_ARCHITECTURE[architecture]
    own = [path for name in MISTRAL_FILES for path in folder.glob(name)]
    return MISTRAL if own and any(folder.glob(MISTRAL_WEIGHTS)) else HF


def is_autos(folder: Path, mode: str) -> bool:
    """Whether that mode splits text as transformers' AutoTokenizer does."""
    return mode in SPLIT_AS_HF and model_config(folder).get("model_type") not in BASE_CLASS
