"""Small tokenizers of every kind the prompt maker meets, in plain Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.prompts.errors import PromptError

LETTERS = "abcdefghijklmnop"
WORDS = [f"{a}{b}{c}" for a in LETTERS for b in LETTERS for c in "xyz"]
MARK = "▁"


@dataclass
class ToyTokenizer:
    """Longest match over a vocabulary, a space written as a mark; `kind` says how it is used.

    bytelevel: a text is cut before every space first (GPT, Qwen). sentencepiece: a mark is put in
    front of every text, which is not cut (Llama 2), so that `joined` tokens span words.
    superwords: not cut either, and no mark in front. `bare` adds words that do not need a space.
    """

    kind: str = "bytelevel"
    joined: Sequence[str] = ()
    special: tuple[int, int] = (0, 0)
    """Tokens that the server puts before and after a completion's text."""
    template: tuple[str, str] | None = None
    strips: bool = False
    """Whether the template strips the message."""
    date: str = ""
    """The day that the template says."""
    off: int = 0
    """By how many tokens other days differ."""
    words: Sequence[str] = tuple(WORDS)
    bare: bool = True
    name: str = "toy"
    vocabulary: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [*LETTERS, *"uvwxyz", MARK, "<", ">"]
        texts += [MARK + word for word in self.words]
        texts += self.words if self.bare else []
        texts += [MARK + text.replace(" ", MARK) for text in self.joined]
        self.vocabulary = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        self._longest = max(map(len, self.vocabulary))

    def identity(self) -> str:
        return repr((self.kind, self.joined, self.special, self.template, len(self.words)))

    def load(self) -> ToyTokenizer:
        return self

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        before, after = self.special
        return [[-1] * before + ids + [-2] * after for ids in self.encode_plain(texts)]

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def tokens(self) -> list[tuple[int, str]]:
        return [(number, text) for text, number in self.vocabulary.items()]

    def render(self, content: str) -> str:
        if self.template is None:
            raise PromptError(f"tokenizer {self.name}: no chat template")
        before, after = self.template
        return before + (content.strip() if self.strips else content) + after

    def template_date(self) -> str:
        return self.date

    def date_tokens(self) -> int:
        return self.off

    def _encode(self, text: str) -> list[int]:
        if self.kind == "sentencepiece" and text:
            text = " " + text
        parts = re.findall(r" ?[^ ]+| ", text) if self.kind == "bytelevel" else [text]
        return [i for part in parts for i in self._match(part.replace(" ", MARK))]

    def _match(self, text: str) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            size = next(
                n
                for n in range(min(self._longest, len(text) - at), 0, -1)
                if text[at : at + n] in self.vocabulary
            )
            ids.append(self.vocabulary[text[at : at + size]])
            at += size
        return ids
