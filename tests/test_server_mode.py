"""The tokenizer that a vLLM server takes, by its --tokenizer-mode and the model's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.server_mode import BASE_CLASS, BY_ARCHITECTURE, SPLIT_AS_HF, resolved_mode
from jobs.prompts.tokenizer import ModelTokenizer, own_mode
from launcher.prompts import prompts_order
from tests.sweep_lines import groups_of
from tests.test_prompt_exports import engine_python
from tests.test_prompt_tokenizers import needs_engine


def folder(path: Path, *files: str, **config: object) -> Path:
    """A model's folder with these files, empty, and a config.json."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    for name in files:
        (path / name).touch()
    return path


@pytest.mark.parametrize(
    ("files", "architecture", "given", "mode"),
    [
        ((), "Qwen3ForCausalLM", "auto", "hf"),
        ((), "DeepseekV32ForCausalLM", "auto", "deepseek_v32"),
        ((), "DeepseekV3ForCausalLM", "auto", "hf"),
        (("consolidated.safetensors", "tekken.json"), "MistralForCausalLM", "auto", "mistral"),
        (("consolidated-1.safetensors", "tokenizer.model.v3"), "X", "auto", "mistral"),
        (("tekken.json",), "MistralForCausalLM", "auto", "hf"),
        (("consolidated.safetensors",), "MistralForCausalLM", "auto", "hf"),
        (("consolidated.safetensors", "tekken.json"), "MistralForCausalLM", "HF", "hf"),
        ((), "Qwen3ForCausalLM", "Mistral", "mistral"),
        ((), "Qwen3ForCausalLM", "of_a_plugin", "of_a_plugin"),
    ],
)
def test_auto_is_what_the_servers_files_and_architecture_make_of_it(
    tmp_path: Path, files: tuple[str, ...], architecture: str, given: str, mode: str
) -> None:
    model = folder(tmp_path / "m", *files, architectures=[architecture])
    assert resolved_mode(model, given) == mode
    assert own_mode(str(model), given) == ("" if mode == "hf" else mode)


def test_a_class_that_vllm_does_not_trust_is_loaded_by_vllm(tmp_path: Path) -> None:
    assert own_mode(str(folder(tmp_path / "m", model_type="internlm2")), "auto") == "hf"
    assert own_mode(str(folder(tmp_path / "k", model_type="kimi")), "kimi_k3") == ""


def test_the_mode_is_part_of_what_prompts_are_known_by(tmp_path: Path) -> None:
    model = str(folder(tmp_path / "m", "tokenizer.json"))
    plain = ModelTokenizer(model).identity()
    assert "mode" not in plain
    assert ModelTokenizer(model, mode="hf").identity() == plain
    assert "mode mistral" in ModelTokenizer(model, mode="mistral").identity()


def test_a_mode_that_only_the_engine_has_is_refused_without_the_engine(tmp_path: Path) -> None:
    model = folder(tmp_path / "m", "consolidated.safetensors", "tekken.json")
    cache = PromptCache(tmp_path / "kept")
    with pytest.raises(PromptError, match=r"mode is mistral.*use the engine's Python"):
        ModelTokenizer(str(model), cache=cache).load()


@pytest.mark.parametrize(
    ("words", "mode"), [((), "auto"), (("+model.flags.tokenizer-mode=mistral",), "mistral")]
)
def test_the_servers_own_flag_reaches_the_step_that_makes_prompts(
    words: tuple[str, ...], mode: str
) -> None:
    base = ("topology=dep2_prefill1x2", "workload=smoke", "engine=rehearsal", "cluster=local")
    (group,) = groups_of(*base, *words)
    assert prompts_order(group.plan)["tokenizer_mode"] == mode


REGISTRY = """
import json
from vllm.tokenizers import registry
modes = registry._VLLM_TOKENIZERS
as_hf = sorted(mode for mode, (_, name) in modes.items() if name == "CachedHfTokenizer")
types = sorted(registry._MODEL_TYPES_WITH_INCORRECT_TOKENIZER_CLASS)
print(json.dumps([as_hf, sorted(modes), types]))
"""


@needs_engine
@pytest.mark.engine
def test_the_engine_that_is_installed_has_the_modes_known_here() -> None:
    as_hf, modes, types = engine_python(REGISTRY)
    assert set(as_hf) == SPLIT_AS_HF
    assert set(BY_ARCHITECTURE.values()) <= set(modes)
    assert set(types) == BASE_CLASS
