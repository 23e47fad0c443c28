"""The model's tokenizer through transformers, as the server loads it."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobs.prompts.errors import PromptError
from jobs.prompts.template_date import FIXED, all_days, asks_for_date, template_words


class TransformersTokenizer:
    """A tokenizer of transformers' AutoTokenizer, which is what vLLM loads unless its tokenizer
    mode is another (server_mode.py)."""

    def __init__(self, name: str, trust_remote_code: bool = False) -> None:
        self.name = name
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            self._tokenizer: Any = self._load(trust_remote_code)
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PromptError(f"tokenizer {name} cannot be loaded: {reason}") from error

    def _load(self, trust_remote_code: bool) -> Any:
        load = importlib.import_module("transformers").AutoTokenizer.from_pretrained
        return load(self.name, trust_remote_code=trust_remote_code)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the special tokens a server adds to a completion prompt."""
        return self._ids(texts, True)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids without special tokens."""
        return self._ids(texts, False)

    def _ids(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        if not texts:
            return []
        made = self._tokenizer(
            list(texts),
            add_special_tokens=special,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        ids: list[list[int]] = made["input_ids"]
        return ids

    def tokens(self) -> list[tuple[int, str]]:
        """Every ordinary token: its id and its own spelling."""
        special = set(self.special_ids())
        ids = [i for i in range(len(self._tokenizer)) if i not in special]
        spelled = map(_spelling, self._tokenizer.convert_ids_to_tokens(ids))
        return list(zip(ids, spelled, strict=True))

    def special_ids(self) -> list[int]:
        """Ids of its special tokens."""
        return [int(i) for i in self._tokenizer.all_special_ids]

    def template_date(self) -> str:
        """The day that its chat template says in every prompt, which is always the same one; empty
        where it says none."""
        return f"{FIXED:%Y-%m-%d}" if asks_for_date(self._template()) else ""

    def date_tokens(self) -> int:
        """By how many tokens other days' dates differ from that one, at most; a year is tried."""
        if not self.template_date():
            return 0
        texts = [self.render_on("", day) for day in [FIXED, *all_days()]]
        first, *others = map(len, self.encode_plain(texts))
        return max(abs(tokens - first) for tokens in others)

    def render(self, content: str) -> str:
        """One user message in the chat template, generation prompt added; PromptError: none."""
        return self.render_on(content, FIXED)

    def render_on(self, content: str, day: datetime) -> str:
        """The same as the template says it on that day, where it says the date at all."""
        message = [{"role": "user", "content": content}]
        render = self._tokenizer.apply_chat_template
        words = {"add_generation_prompt": True, **template_words(self._template(), day)}
        try:
            text: str = render(message, tokenize=False, **words)
        except (ValueError, TypeError, ImportError) as error:
            raise PromptError(f"tokenizer {self.name}: no chat template ({error})") from error
        return text

    def serialized(self) -> str:
        """The tokenizer.json of what it splits with; empty where that is Python code."""
        backend: Any = getattr(self._tokenizer, "backend_tokenizer", None)
        # A slow tokenizer has none, or one of another library.
        return str(backend.to_str()) if type(backend).__module__.startswith("tokenizers") else ""

    def content_hash(self) -> str:
        """SHA-256 of its serialized self and its chat template."""
        told = self.serialized() or json.dumps(sorted(self.tokens()))
        template = json.dumps(self._template())
        return hashlib.sha256((told + template).encode()).hexdigest()

    def _template(self) -> Any:
        return getattr(self._tokenizer, "chat_template", None)


def _spelling(token: Any) -> str:
    """A token as text; some tokenizers spell theirs in bytes."""
    return token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token or "")
