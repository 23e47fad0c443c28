"""Tokenizers exported for making prompts: slimmed without a change of what they split to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.exported import Export, load_export, save_export
from jobs.prompts.exporting import check_texts, template_of
from jobs.prompts.slim import byte_letters, slim, slimmed, written
from jobs.prompts.tokenizer import ModelTokenizer
from tests.test_prompt_tokenizers import ENGINE, MODEL, REPOSITORY, needs_engine
from tests.toy_tokenizers import ToyTokenizer


def bpe(**changes: Any) -> dict[str, Any]:
    """A small tokenizer.json."""
    model: dict[str, Any] = {
        "type": "BPE",
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "vocab": {"a": 0, "Ġ": 1, "é": 2, "Ã": 3, "©": 4, "Ã©": 5, "Ġa": 6, "▁a": 7},
        "merges": [["Ã", "©"], ["Ġ", "a"], "▁ a"],
    }
    added = [{"id": 90, "content": "<|énd|>"}]
    return {"model": {**model, **changes}, "added_tokens": added, "normalizer": None}


def test_tokens_that_ascii_text_cannot_come_to_are_left_out_with_their_merges() -> None:
    small = slim(bpe())
    assert small is not None
    vocabulary = small["model"]["vocab"]
    assert vocabulary == {"a": 0, "Ġ": 1, "Ġa": 6, "▁a": 7, "<|énd|>": 90}
    assert small["model"]["merges"] == ["Ġ a", "▁ a"]


@pytest.mark.parametrize("pair", [["a", " "], ["#version:", "a"]])
def test_merges_that_one_text_cannot_say_stay_pairs(pair: list[str]) -> None:
    pairs = [["Ġ", "a"], pair]
    assert written(pairs) == pairs


def test_a_slimmed_file_is_text_and_empty_where_nothing_is_known_of_the_model() -> None:
    assert json.loads(slimmed(json.dumps(bpe()).encode())) == slim(bpe())
    assert slimmed(json.dumps(bpe(type="Unigram")).encode()) == b""


def test_what_the_template_says_around_a_prompt_is_kept() -> None:
    small = slim(bpe(), "é")
    assert small is not None
    assert {"Ã", "©", "Ã©", "é"} <= set(small["model"]["vocab"])


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "Unigram"},
        {"type": "WordPiece"},
        {"continuing_subword_prefix": "##"},
        {"end_of_word_suffix": "</w>"},
        {"dropout": 0.1},
    ],
)
def test_a_model_whose_rest_may_split_otherwise_is_not_slimmed(changes: dict[str, Any]) -> None:
    assert slim(bpe(**changes)) is None


def test_bytes_are_written_as_byte_level_tokenizers_write_them() -> None:
    letters = byte_letters()
    assert len(set(letters)) == 256
    assert [letters[byte] for byte in b" \n\x7fa\xc3\xad"] == ["Ġ", "Ċ", "ġ", "a", "Ã", "Ń"]


def test_an_export_is_read_as_it_was_written_and_a_torn_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.prompts"
    told: dict[str, Any] = {"before": "<u>", "after": "</u>", "strips": True, "ids_below": 7}
    export = Export(tokenizer=b"{}", special_ids=(1, 2), **told)
    save_export(path, export)
    assert load_export(path) == export
    content = path.read_bytes().replace(b"export", b"exqort")
    path.write_bytes(content)
    with pytest.raises(PromptError, match="no tokenizer"):
        load_export(path)


@pytest.mark.parametrize("strips", [False, True])
def test_a_template_is_known_by_what_it_puts_around_a_message(strips: bool) -> None:
    toy = ToyTokenizer(template=("<aab>", "<pob>"), strips=strips)
    found = template_of(toy)
    assert (found.before, found.after, found.strips) == ("<aab>", "<pob>", strips)
    assert any(text.startswith("<aab>") for text in check_texts(toy, found))


def test_a_template_that_alters_only_some_messages_is_none() -> None:
    toy = ToyTokenizer(template=("<aab>", "<pob>"))
    toy.render = lambda content: "<aab>" + content.replace("\n", " ")  # type: ignore[method-assign]
    assert "alters the message" in template_of(toy).error
    assert "no chat template" in template_of(ToyTokenizer()).error


def engine_python(code: str, *words: str) -> Any:
    """What the engine's Python prints as JSON."""
    done = subprocess.run(
        [str(ENGINE / "bin" / "python"), "-c", code, *words],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LOAD = """
import json, sys
from pathlib import Path
from jobs.prompts.cache import PromptCache
from jobs.prompts.tokenizer import ModelTokenizer
loaded = ModelTokenizer(sys.argv[1], cache=PromptCache(Path(sys.argv[2]))).load()
heavy = [name for name in ("torch", "transformers") if name in sys.modules]
tokens = [(number, text) for number, text in loaded.tokens() if text.isascii()]
print(json.dumps([type(loaded).__name__, heavy, loaded.encode([" to be or not"]), tokens]))
"""
IDS = """
import json, sys
from jobs.prompts.full_tokenizer import TransformersTokenizer
full = TransformersTokenizer(sys.argv[1])
tokens = [(number, text) for number, text in full.tokens() if text.isascii()]
print(json.dumps([full.encode([" to be or not"]), tokens]))
"""


@needs_engine
@pytest.mark.engine
def test_a_fast_tokenizer_is_used_without_transformers_and_torch(tmp_path: Path) -> None:
    kind, heavy, *found = engine_python(LOAD, str(MODEL), str(tmp_path))
    assert (kind, heavy) == ("ExportedTokenizer", [])
    assert found == engine_python(IDS, str(MODEL))


def test_a_folder_that_cannot_be_loaded_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    named = ModelTokenizer(str(tmp_path), cache=PromptCache(tmp_path / "kept"))
    with pytest.raises(PromptError, match="cannot be loaded"):
        named.load()
    assert not list((tmp_path / "kept").glob("*.prompts"))
