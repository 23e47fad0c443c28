"""A tokenizer that only the engine has: vLLM's own, by its tokenizer mode."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from jobs.prompts.errors import PromptError
from jobs.prompts.full_tokenizer import TransformersTokenizer


class EngineTokenizer(TransformersTokenizer):
    """The tokenizer that a vLLM server started in that mode has, loaded by vLLM itself."""

    def __init__(self, name: str, mode: str, trust_remote_code: bool = False) -> None:
        self.mode = mode
        super().__init__(name, trust_remote_code)

    def _load(self, trust_remote_code: bool) -> Any:
        # No server, no device: nothing of it is started.
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            vllm = importlib.import_module("vllm.tokenizers")
        except ImportError as error:
            raise PromptError(
                f"tokenizer {self.name}: its server's tokenizer mode is {self.mode}, which is "
                f"vLLM's own ({error}): use the engine's Python"
            ) from error
        mode = self.mode
        return vllm.get_tokenizer(
            self.name, tokenizer_mode=mode, trust_remote_code=trust_remote_code
        )

    def _ids(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        # As vLLM's renderer asks; not every one of its tokenizers can be called.
        encode = self._tokenizer.encode
        return [list(encode(text, add_special_tokens=special)) for text in texts]
