"""The model's tokenizer as the server loads it, and what identifies it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from jobs.prompts.errors import PromptError

FILES = ("*.json", "*.model", "*.tiktoken", "*.txt", "*.jinja", "*.py")
"""Files of a tokenizer's folder that decide what it does; weights' indexes are left out."""
NOT_TOKENIZER = ("config.json", "generation_config.json", "model.safetensors.index.json")


class TextTokenizer(Protocol):
    """What the makers need of a tokenizer."""

    name: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the special tokens a server adds to a completion prompt."""

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids without special tokens."""

    def tokens(self) -> list[tuple[int, str]]:
        """Every ordinary token: its id and its own spelling."""

    def render(self, content: str) -> str:
        """One user message in the chat template, generation prompt added; PromptError: none."""


class TokenizerSource(Protocol):
    """A tokenizer that is loaded only when it is needed."""

    def identity(self) -> str:
        """What decides how it splits, as text."""

    def load(self) -> TextTokenizer:
        """The tokenizer; PromptError where it cannot be loaded."""


class ModelTokenizer:
    """The tokenizer of a model's folder, or of a name that transformers knows."""

    def __init__(self, name: str, trust_remote_code: bool = False) -> None:
        self.name = name
        self.trust_remote_code = trust_remote_code
        self._loaded: TransformersTokenizer | None = None

    def identity(self) -> str:
        """Hash of its files (of its serialized self, where it is no folder) and of the libraries'
        versions: another version may split otherwise."""
        folder = Path(self.name)
        found = folder_hash(folder) if folder.is_dir() else self.load().content_hash()
        return f"{found} ({library_versions()})"

    def load(self) -> TransformersTokenizer:
        """The tokenizer; PromptError where it cannot be loaded."""
        if self._loaded is None:
            self._loaded = TransformersTokenizer(self.name, self.trust_remote_code)
        return self._loaded


class TransformersTokenizer:
    """A tokenizer of transformers' AutoTokenizer, which is what vLLM loads."""

    def __init__(self, name: str, trust_remote_code: bool = False) -> None:
        self.name = name
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            load = importlib.import_module("transformers").AutoTokenizer.from_pretrained
            self._tokenizer: Any = load(name, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PromptError(f"tokenizer {name} cannot be loaded: {reason}") from error

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
        special = set(self._tokenizer.all_special_ids)
        ids = [i for i in range(len(self._tokenizer)) if i not in special]
        spelled = map(_spelling, self._tokenizer.convert_ids_to_tokens(ids))
        return list(zip(ids, spelled, strict=True))

    def render(self, content: str) -> str:
        """One user message in the chat template, generation prompt added; PromptError: none."""
        message = [{"role": "user", "content": content}]
        render = self._tokenizer.apply_chat_template
        try:
            text: str = render(message, tokenize=False, add_generation_prompt=True)
        except (ValueError, TypeError, ImportError) as error:
            raise PromptError(f"tokenizer {self.name}: no chat template ({error})") from error
        return text

    def content_hash(self) -> str:
        """SHA-256 of its serialized self and its chat template."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        told = backend.to_str() if backend else json.dumps(sorted(self.tokens()))
        template = json.dumps(getattr(self._tokenizer, "chat_template", None))
        return hashlib.sha256((told + template).encode()).hexdigest()


def folder_hash(folder: Path) -> str:
    """SHA-256 of the names and contents of a folder's tokenizer files; PromptError: has none."""
    digest = hashlib.sha256()
    found = sorted({path for pattern in FILES for path in folder.glob(pattern)})
    used = [path for path in found if path.is_file() and path.name not in NOT_TOKENIZER]
    if not used:
        raise PromptError(f"{folder} has no tokenizer files ({', '.join(FILES)})")
    for path in used:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def library_versions() -> str:
    """Versions of what splits texts, where it is installed."""
    told = []
    for name in ("transformers", "tokenizers", "sentencepiece", "tiktoken"):
        try:
            told.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(told)


def _spelling(token: Any) -> str:
    """A token as text; some tokenizers spell theirs in bytes."""
    return token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token or "")
