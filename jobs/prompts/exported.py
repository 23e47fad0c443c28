"""A model's tokenizer without transformers: the same rules, read by the library that runs them.

Loading one through transformers takes 0.1 to 0.9 GB and up to 20 s. exporting.py does it once, in a
process of its own, and keeps here what the server's object splits with.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobs.prompts.arrays_file import read_arrays, write_arrays
from jobs.prompts.errors import PromptError
from jobs.prompts.freed import give_back


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What is kept of a tokenizer."""

    tokenizer: bytes = b""
    """Its tokenizer.json; empty where it cannot be used without transformers."""
    reason: str = ""
    """Why it cannot."""
    ids_below: int = 0
    """One more than its highest id."""
    special_ids: tuple[int, ...] = ()
    before: str = ""
    """What the chat template puts before and after a message."""
    after: str = ""
    strips: bool = False
    """Whether it takes the spaces around a message away."""
    template_date: str = ""
    """The day that it says there; empty: none."""
    date_tokens: int = 0
    """By how many tokens other days' dates differ from that one, at most."""
    template_error: str = ""
    """Why there is no chat template."""


def save_export(path: Path, export: Export) -> None:
    """The export at `path`, whole or not at all; OSError."""
    told = {name: getattr(export, name) for name in Export.__slots__ if name != "tokenizer"}
    array = np.frombuffer(export.tokenizer, dtype=np.uint8)
    write_arrays(path, {"tokenizer": array}, {"export": json.dumps(told)})


def load_export(path: Path) -> Export:
    """The export in a file; PromptError, ArraysFileError, OSError where there is none."""
    arrays, metadata = read_arrays(path)
    try:
        told = json.loads(metadata["export"])
        told["special_ids"] = tuple(told["special_ids"])
        return Export(tokenizer=arrays["tokenizer"].tobytes(), **told)
    except (KeyError, TypeError, ValueError) as error:
        raise PromptError(f"{path}: no tokenizer ({error!r}); delete it") from error


class ExportedTokenizer:
    """A tokenizer of an export with a tokenizer.json."""

    def __init__(self, name: str, export: Export) -> None:
        self.name = name
        self._export = replace(export, tokenizer=b"")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            library = importlib.import_module("tokenizers")
        except ImportError as error:
            raise PromptError(f"tokenizer {name} cannot be loaded: {error}") from error
        self._tokenizer: Any = library.Tokenizer.from_buffer(export.tokenizer)
        # A tokenizer.json may ask for both; a server's prompts get neither.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        give_back()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the special tokens a server adds to a completion prompt."""
        return self._ids(texts, True)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids without special tokens."""
        return self._ids(texts, False)

    def _ids(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        encode = self._tokenizer.encode
        # One at a time: an encoding keeps offsets and more, some 300 bytes a token.
        return [encode(text, add_special_tokens=special).ids for text in texts]

    def tokens(self) -> Iterator[tuple[int, str]]:
        """Every ordinary token that it has kept: its id and its own spelling."""
        special = set(self._export.special_ids)
        # Not get_vocab: the whole vocabulary as Python objects is 40 MB.
        for number in range(self._export.ids_below):
            text = self._tokenizer.id_to_token(number)
            if text is not None and number not in special:
                yield number, text

    def highest_id(self) -> int:
        """The highest id of any token, special ones included."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    def template_date(self) -> str:
        """The day that its chat template says in every prompt; empty where it says none."""
        return self._export.template_date

    def date_tokens(self) -> int:
        """By how many tokens other days' dates differ from that one, at most."""
        return self._export.date_tokens

    def render(self, content: str) -> str:
        """One user message in the chat template, generation prompt added; PromptError: none."""
        if self._export.template_error:
            raise PromptError(self._export.template_error)
        told = content.strip() if self._export.strips else content
        return self._export.before + told + self._export.after
