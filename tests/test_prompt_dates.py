"""Chat templates that say the date: prompts say one day, and are told what a server's own does."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from jobs.prompts import probe as probing
from jobs.prompts.cache import PromptCache
from jobs.prompts.exporting import template_of
from jobs.prompts.making import Maker
from jobs.prompts.reader import PromptFile
from jobs.prompts.spec import Spec
from jobs.prompts.template_date import FIXED, all_days, asks_for_date, template_words
from tests.test_prompt_exports import engine_python
from tests.test_prompt_tokenizers import MODEL, needs_engine
from tests.toy_tokenizers import ToyTokenizer

CHAT = ("<aab>", "<pob>")
DAY = "2024-07-26"


def made(folder: Path, toy: ToyTokenizer, context: str) -> PromptFile:
    """A small file."""
    out = folder / f"{context}.prompts"
    cache = PromptCache(folder / "kept")
    source = "multi_turn" if context == "messages" else "random"
    maker = Maker(cache=cache, form="text", tokenizer=toy, context=context)
    maker.make(Spec(count=2, input_range=(60, 70), output_range=(1, 2), source=source), out)
    return PromptFile.open(out)


@pytest.fixture(autouse=True)
def _few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy tokenizers are slow and small."""
    monkeypatch.setattr(probing, "NUM_BLOCKS", 80)
    monkeypatch.setattr(probing, "NUM_WORDS", 40)
    monkeypatch.setattr(probing, "MIN_BLOCKS", 40)


def test_only_a_template_that_asks_for_the_date_is_told_one() -> None:
    dated = "{{ strftime_now('%d %b %Y') }}{{ messages }}"
    assert [asks_for_date(t) for t in (dated, {"default": dated}, "{{ messages }}", None)] == [
        True,
        True,
        False,
        False,
    ]
    assert template_words(dated)["strftime_now"]("%d %b %Y") == "26 Jul 2024"
    assert template_words("{{ messages }}") == {}
    days = list(all_days())
    assert (len(set(days)), FIXED in days) == (366, True)
    assert {day.year for day in days} == {2024}


def test_a_file_tells_the_day_that_its_template_says(tmp_path: Path) -> None:
    toy = ToyTokenizer(template=CHAT, date=DAY, off=2)
    assert (template_of(toy).date, template_of(toy).date_tokens) == (DAY, 2)
    assert made(tmp_path, toy, "template").meta["template_date"] == DAY
    assert "template_date" not in made(tmp_path, toy, "plain").meta
    assert f"template of {DAY}" in made(tmp_path, toy, "template").meta["pieces_of"]


@pytest.mark.parametrize(("off", "level"), [(0, logging.INFO), (2, logging.WARNING)])
def test_messages_whose_date_the_server_says_are_told_by_how_much_they_may_be_off(
    off: int, level: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    toy = ToyTokenizer(template=CHAT, date=DAY, off=off)
    file = made(tmp_path, toy, "messages")
    assert (file.meta["template_date"], file.meta["date_tokens"]) == ("the server's", off)
    told = [record for record in caplog.records if "says the date" in record.message]
    assert [record.levelno for record in told] == [level]


RENDERED = """
import json, sys
from pathlib import Path
from jobs.prompts.cache import PromptCache
from jobs.prompts.tokenizer import ModelTokenizer
loaded = ModelTokenizer(sys.argv[1], cache=PromptCache(Path(sys.argv[2]))).load()
told = [type(loaded).__name__, loaded.template_date(), loaded.date_tokens()]
print(json.dumps([*told, loaded.render("some words")]))
"""


@needs_engine
@pytest.mark.engine
def test_the_real_library_renders_a_dated_template_on_the_fixed_day(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(MODEL / name, model / name)
    (model / "chat_template.jinja").write_text(
        "{{ strftime_now('%-d %b %Y') }}: {% for m in messages %}{{ m.content }}{% endfor %}"
    )
    kind, date, off, text = engine_python(RENDERED, str(model), str(tmp_path / "kept"))
    assert (kind, date, text) == ("ExportedTokenizer", DAY, "26 Jul 2024: some words")
    # A digit of this tokenizer is a token, and so may a letter be.
    assert off >= 1
