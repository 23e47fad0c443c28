"""Exports a model's tokenizer, checked against the one that a server has.

    python -m jobs.prompts.exporting [--trust-remote-code] TOKENIZER OUT

Run once per tokenizer in a process of its own, whose memory is then given back. Exit status: 0 OUT
says what is known, be it that it cannot be exported; 2 the tokenizer cannot be loaded so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.prompts.draws import Draws
from jobs.prompts.errors import PromptError
from jobs.prompts.exported import Export, ExportedTokenizer, save_export
from jobs.prompts.full_tokenizer import TransformersTokenizer
from jobs.prompts.slim import slim
from jobs.prompts.tokenizer import TextTokenizer

CHECKED_TEXTS = 400
WORDS_OF_A_TEXT = 250
AT_ONCE = 16
SENTINEL = "QZJXQ"
CONTENTS = ("a", "some words", "Many more words, in two lines\nand 12 345 signs.", "x" * 300)
"""Messages that a chat template must leave as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a chat template puts around a message; `error`: there is none that does just that."""

    before: str = ""
    after: str = ""
    strips: bool = False
    error: str = ""


def export_of(full: TransformersTokenizer) -> Export:
    """What is kept of a tokenizer: proved to give the same ids, or the reason why nothing is."""
    text = full.serialized()
    if not text:
        return Export(reason="it splits text in Python code")
    template = template_of(full)
    small = slim(json.loads(text), template.before + template.after)
    texts = list(check_texts(full, template))
    expected = _all_ids(full, texts)
    for content in [json.dumps(small), text] if small else [text]:
        export = Export(
            tokenizer=content.encode(),
            special_ids=tuple(full.special_ids()),
            before=template.before,
            after=template.after,
            strips=template.strips,
            template_error=template.error,
        )
        if _all_ids(ExportedTokenizer(full.name, export), texts) == expected:
            return export
    return Export(reason="its tokenizer.json alone splits otherwise than transformers with it")


def _all_ids(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Ids with and without special tokens, a few texts at once: encodings take much memory."""
    found = []
    for begin in range(0, len(texts), AT_ONCE):
        part = texts[begin : begin + AT_ONCE]
        found += tokenizer.encode(part) + tokenizer.encode_plain(part)
    return found


def template_of(full: TextTokenizer) -> Template:
    """What a tokenizer's chat template puts around a message that it leaves as it is."""
    altered = Template(error=f"tokenizer {full.name}: its chat template alters the message")
    try:
        rendered = full.render(SENTINEL)
        if rendered.count(SENTINEL) != 1:
            return altered
        before, after = rendered.split(SENTINEL)
        strips = full.render(f" {SENTINEL} ") == rendered
        for content in CONTENTS:
            told = content if strips else f" {content} "
            if full.render(f" {content} ") != before + told + after:
                return altered
    except PromptError as error:
        return Template(error=str(error))
    return Template(before=before, after=after, strips=strips)


def check_texts(full: TextTokenizer, template: Template) -> Iterator[str]:
    """Random texts of the tokenizer's own ASCII tokens, half of them in the template; and every
    such token, a thousand to a text."""
    spelled = [text.replace("Ġ", " ").replace("▁", " ") for _, text in full.tokens()]
    words = [text for text in spelled if text.isascii() and text.isprintable()]
    if not words:
        return
    drawn = Draws("check", len(words)).below(len(words), CHECKED_TEXTS, WORDS_OF_A_TEXT)
    for number, row in enumerate(drawn.tolist()):
        text = (" " if number % 2 else "").join(words[i] for i in row)
        yield template.before + text + template.after if number % 4 < 2 else text
    for begin in range(0, len(words), 1000):
        yield "\n".join(words[begin : begin + 1000])


def main(arguments: Sequence[str]) -> int:
    """The program; its exit status."""
    *options, name, out = arguments
    # transformers then takes PyTorch for not installed; a tokenizer does not need its 260 MB.
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        full = TransformersTokenizer(name, trust_remote_code="--trust-remote-code" in options)
        save_export(Path(out), export_of(full))
    except (PromptError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
