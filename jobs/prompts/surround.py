"""What a server puts around the words of a prompt, and how many tokens it then counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.prompts.errors import PromptError
from jobs.prompts.tokenizer import TextTokenizer

CONTEXTS = ("plain", "template", "messages")
SENTINEL = "QZJXQ"


@dataclass(frozen=True, slots=True)
class Surround:
    """What a server puts around a prompt's words before it encodes them.

    plain: nothing, the prompt is a completion's. template: the prompt is a completion's too, one
    user message in the chat template, as the published benchmark's client sends it. messages: the
    chat endpoint renders the message and adds no special tokens to what it has rendered.
    """

    tokenizer: TextTokenizer
    context: str
    before: str = ""
    after: str = ""

    def encode(self, contents: Sequence[str]) -> list[list[int]]:
        """Token ids of these prompts, or messages, as the server will have them."""
        if self.context == "messages":
            return self.tokenizer.encode_plain([self.tokenizer.render(c) for c in contents])
        return self.tokenizer.encode([self.before + content + self.after for content in contents])

    def encode_whole(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for texts of a prompt file, which have the template in them already."""
        return self.encode(texts) if self.context == "messages" else self.tokenizer.encode(texts)


def surround_of(tokenizer: TextTokenizer, context: str) -> Surround:
    """What stands around a prompt; PromptError where the template says a message otherwise."""
    if context == "plain":
        return Surround(tokenizer, context)
    rendered = tokenizer.render(SENTINEL)
    if rendered.count(SENTINEL) != 1:
        raise PromptError(f"tokenizer {tokenizer.name}: its chat template alters the message")
    if context == "messages":
        return Surround(tokenizer, context)
    before, after = rendered.split(SENTINEL)
    return Surround(tokenizer, context, before, after)
