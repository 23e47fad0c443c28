"""Exports a model's tokenizer, checked against the one that a server has.

    python -m jobs.prompts.exporting [--trust-remote-code] [--mode=MODE] TOKENIZER OUT

Run once per tokenizer in a process of its own, whose memory is then given back. Exit status: 0 OUT
says what is known, be it that it cannot be exported; 2 the tokenizer cannot be loaded so.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.prompts.draws import Draws
from jobs.prompts.errors import PromptError
from jobs.prompts.exported import Export, ExportedTokenizer, save_export
from jobs.prompts.freed import give_back
from jobs.prompts.full_tokenizer import TransformersTokenizer
from jobs.prompts.server_mode import AUTO
from jobs.prompts.slim import slimmed
from jobs.prompts.tokenizer import TextTokenizer, full_tokenizer, own_mode

CHECKED_TEXTS = 400
WORDS_OF_A_TEXT = 250
AT_ONCE = 16
WITH_SPECIAL = 3
"""Every so many texts are encoded with special tokens too, with and without the template."""
MODE = "--mode="
SENTINEL = "QZJXQ"
CONTENTS = ("a", "some words", "Many more words, in two lines\nand 12 345 signs.", "x" * 300)
"""Messages that a chat template must leave as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a chat template puts around a message; `error`: there is none that does just that."""

    before: str = ""
    after: str = ""
    strips: bool = False
    date: str = ""
    date_tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All that is asked of the server's tokenizer, so that it need not be held any longer."""

    name: str
    whole: Export
    """Its own tokenizer.json, and what else is known of it."""
    texts: Sequence[str] = ()
    ids: Sequence[array[int]] = ()
    """What it splits the texts into (_all_ids)."""


def asked_of(full: TransformersTokenizer) -> Asked:
    """What a tokenizer says of itself and of the texts it is checked with."""
    template = template_of(full)
    texts = list(check_texts(full, template))
    return Asked(
        name=full.name,
        whole=Export(
            tokenizer=full.serialized().encode(),
            special_ids=tuple(full.special_ids()),
            before=template.before,
            after=template.after,
            strips=template.strips,
            template_date=template.date,
            date_tokens=template.date_tokens,
            template_error=template.error,
        ),
        texts=texts,
        ids=_all_ids(full, texts),
    )


def export_of(asked: Asked) -> Export:
    """What is kept of a tokenizer: proved to give the same ids, or the reason why nothing is."""
    whole = asked.whole.tokenizer
    if not whole:
        return Export(reason="it splits text in Python code")
    small = slimmed(whole, asked.whole.before + asked.whole.after)
    give_back()
    for content in filter(None, (small, whole)):
        export = replace(asked.whole, tokenizer=content)
        tokenizer = ExportedTokenizer(asked.name, export)
        if _all_ids(tokenizer, asked.texts) == asked.ids:
            return replace(export, ids_below=tokenizer.highest_id() + 1)
    return Export(reason="its tokenizer.json alone splits otherwise than transformers with it")


def _all_ids(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[array[int]]:
    """Ids of all without special tokens, which no text changes, and of some with them; a few texts
    at once: encodings take much memory."""
    found: list[array[int]] = []
    for begin in range(0, len(texts), AT_ONCE):
        part = texts[begin : begin + AT_ONCE]
        for ids in (*tokenizer.encode(part[::WITH_SPECIAL]), *tokenizer.encode_plain(part)):
            found.append(array("q", ids))
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
    date, date_tokens = full.template_date(), full.date_tokens()
    return Template(before=before, after=after, strips=strips, date=date, date_tokens=date_tokens)


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
    given = next((o.removeprefix(MODE) for o in options if o.startswith(MODE)), AUTO)
    if not own_mode(name, given):
        # transformers takes PyTorch for not installed; a tokenizer does not need its 260 MB.
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        full = full_tokenizer(name, "--trust-remote-code" in options, given)
        give_back()
        asked = asked_of(full)
        del full
        give_back()
        save_export(Path(out), export_of(asked))
    except (PromptError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
