"""The model's tokenizer as the server loads it, and what identifies it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from jobs.prompts.cache import PromptCache
from jobs.prompts.engine_tokenizer import EngineTokenizer
from jobs.prompts.errors import PromptError
from jobs.prompts.exported import ExportedTokenizer, load_export
from jobs.prompts.full_tokenizer import TransformersTokenizer
from jobs.prompts.server_mode import (
    AUTO,
    HF,
    RENDERED_IN_CODE,
    is_autos,
    model_config,
    resolved_mode,
)

EXPORT_VERSION = 2
EXPORT_TIMEOUT_S = 900.0
ENGINE = ("vllm", "mistral_common")
"""Libraries of a tokenizer that only the engine has."""

FILES = ("*.json", "*.model", "*.model.v*", "*.tiktoken", "*.txt", "*.jinja", "*.py")
"""Files of a tokenizer's folder that decide what it does; weights' indexes are left out."""
NOT_TOKENIZER = ("config.json", "generation_config.json", "model.safetensors.index.json")


log = logging.getLogger("prompts")


class ExportError(RuntimeError):
    """A tokenizer that could not be exported; the text is the reason."""


class TextTokenizer(Protocol):
    """What the makers need of a tokenizer."""

    name: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the special tokens a server adds to a completion prompt."""

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids without special tokens."""

    def tokens(self) -> Iterable[tuple[int, str]]:
        """Every ordinary token: its id and its own spelling."""

    def render(self, content: str) -> str:
        """One user message in the chat template, generation prompt added; PromptError: none."""

    def template_date(self) -> str:
        """The day that the chat template says in every prompt made here; empty: none."""

    def date_tokens(self) -> int:
        """How many tokens more or fewer a server's own date may have."""


class TokenizerSource(Protocol):
    """A tokenizer that is loaded only when it is needed."""

    def identity(self) -> str:
        """What decides how it splits, as text."""

    def load(self) -> TextTokenizer:
        """The tokenizer; PromptError where it cannot be loaded."""


class ModelTokenizer:
    """The tokenizer of a model's folder, or of a name that transformers knows.

    With a cache it is loaded through transformers once, by a process that leaves an export there.
    `mode`: the server's --tokenizer-mode.
    """

    def __init__(
        self,
        name: str,
        trust_remote_code: bool = False,
        cache: PromptCache | None = None,
        mode: str = AUTO,
    ) -> None:
        self.name = name
        self.trust_remote_code = trust_remote_code
        self.cache = cache
        self.mode = mode
        self._loaded: TextTokenizer | None = None
        self._full: TransformersTokenizer | None = None

    def identity(self) -> str:
        """Hash of its files (of its serialized self, where it is no folder) and of the libraries'
        versions: another version may split otherwise."""
        folder = Path(self.name)
        if not folder.is_dir():
            return f"{self._by_transformers().content_hash()} ({library_versions()})"
        told = model_config(folder).get("model_type")
        told = f"{told}, " if told else ""
        mode = own_mode(self.name, self.mode)
        told += f"mode {mode}, " if mode else ""
        return f"{folder_hash(folder)} ({told}{library_versions(ENGINE if mode else ())})"

    def load(self) -> TextTokenizer:
        """The tokenizer; PromptError where it cannot be loaded."""
        if self._loaded is None:
            self._tell_mode()
            self._loaded = self._exported() or self._by_transformers()
        return self._loaded

    def _tell_mode(self) -> None:
        mode = resolved_mode(Path(self.name), self.mode)
        if own_mode(self.name, self.mode):
            log.info("tokenizer %s: the server's mode is %s, taken from vLLM", self.name, mode)
        if mode in RENDERED_IN_CODE:
            log.warning(
                "tokenizer %s: servers in mode %s render chats in code of their own: lengths of "
                "chat messages (multi_turn) are estimates, those of completions exact",
                self.name,
                mode,
            )

    def _by_transformers(self) -> TransformersTokenizer:
        if self._full is None:
            self._full = full_tokenizer(self.name, self.trust_remote_code, self.mode)
        return self._full

    def _exported(self) -> ExportedTokenizer | None:
        if self.cache is None or not Path(self.name).is_dir():
            return None
        told = f"{EXPORT_VERSION} {self.trust_remote_code} {self.identity()}"
        key = "tokenizer-" + hashlib.sha256(told.encode()).hexdigest()[:32]
        try:
            self.cache.get(key, load_export, self._export)
        except (ExportError, OSError) as error:
            log.info("tokenizer %s: %s", self.name, error)
            return None
        export = load_export(self.cache.path(key))
        if export.reason:
            log.info("tokenizer %s is loaded through transformers: %s", self.name, export.reason)
            return None
        return ExportedTokenizer(self.name, export)

    def _export(self, path: Path) -> None:
        options = ["--trust-remote-code"] if self.trust_remote_code else []
        options += [f"--mode={self.mode}"]
        command = [sys.executable, "-m", "jobs.prompts.exporting", *options, self.name, str(path)]
        root = str(Path(__file__).parent.parent.parent)
        searched = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": searched},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=EXPORT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ExportError(f"not exported within {EXPORT_TIMEOUT_S:.0f} s") from error
        if done.returncode:
            reason = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise ExportError(f"not exported: {reason}")


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


def own_mode(name: str, given: str) -> str:
    """The mode that a server started with `given` has for a model's folder, where it is not what
    AutoTokenizer does; empty where it is."""
    folder = Path(name)
    mode = resolved_mode(folder, given) if folder.is_dir() or given != AUTO else HF
    return "" if is_autos(folder, mode) else mode


def full_tokenizer(name: str, trust_remote_code: bool, given: str) -> TransformersTokenizer:
    """The server's tokenizer by the library that the server has it from; PromptError."""
    mode = own_mode(name, given)
    if mode:
        return EngineTokenizer(name, mode, trust_remote_code)
    return TransformersTokenizer(name, trust_remote_code)


def library_versions(more: Sequence[str] = ()) -> str:
    """Versions of what splits texts, where it is installed."""
    told = []
    for name in ("transformers", "tokenizers", "sentencepiece", "tiktoken", *more):
        try:
            told.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(told)
