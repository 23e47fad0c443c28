"""A prompt file as its readers see it: one request at a time, by number, joined when asked for.

The file holds the text of some thousand pieces and, for every request, the numbers of its pieces:
40,960 prompts of 8,000 tokens take some 15 MB and are memory-mapped, so that several processes
share them. Layout: docs/prompts.md.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.prompts.arrays_file import Array, ArraysFileError, read_arrays, write_arrays
from jobs.prompts.drawing import Requests
from jobs.prompts.errors import PromptError
from jobs.prompts.file_check import faults
from jobs.prompts.pieces import ID_SEPARATOR, Pieces

VERSION = 1
LOADED_AT_MOST_BYTES = 1 << 26
OPTIONAL = ("arrival_s", "session", "turn", "wait_s")


class PromptFileError(PromptError):
    """A prompt file that cannot be read; the text is the whole message."""


def write_prompt_file(
    path: Path, requests: Requests, pieces: Pieces, meta: Mapping[str, Any]
) -> None:
    """The requests at `path`, whole or not at all."""
    sizes = np.array([len(text) for text in pieces.texts], dtype=np.int64)
    small = len(pieces.texts) < 1 << 16
    arrays: dict[str, Array] = {
        "text": np.frombuffer(b"".join(pieces.texts), dtype=np.uint8),
        "text_starts": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "pieces": requests.pieces.astype(np.uint16 if small else np.uint32),
        "piece_starts": requests.starts.astype(np.int64),
        "prompt_tokens": requests.prompt_tokens.astype(np.int32),
        "output_tokens": requests.output_tokens.astype(np.int32),
    }
    for name, dtype in zip(OPTIONAL, ("<f8", "<i4", "<i4", "<f8"), strict=True):
        values = getattr(requests, name)
        if values is not None:
            arrays[name] = values.astype(dtype)
    about = {**meta, "version": VERSION, "form": pieces.form, "warmup": requests.warmup}
    write_arrays(path, arrays, {"prompts": json.dumps(about, sort_keys=True)})


class PromptFile:
    """The requests of one benchmark point; warm-up requests have the numbers below `warmup`."""

    def __init__(self, path: Path, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.path = path
        self.meta = meta
        """Everything the file was made from, and what was checked."""
        self.form: str = meta["form"]
        """text: `text` is the prompt; ids: `ids` is; messages: `text` is the next user message."""
        self.warmup: int = meta["warmup"]
        self.prompt_tokens: npt.NDArray[np.int32] = arrays["prompt_tokens"]
        """Tokens as the server counts them, special tokens and template included. messages: what
        is expected if every earlier answer of the session has its full length."""
        self.output_tokens: npt.NDArray[np.int32] = arrays["output_tokens"]
        self.arrival_s: npt.NDArray[np.float64] | None = arrays.get("arrival_s")
        """Seconds from the start of the measured part at which to send; None: no such times."""
        self.session: npt.NDArray[np.int32] | None = arrays.get("session")
        self.turn: npt.NDArray[np.int32] | None = arrays.get("turn")
        """A session's requests go out in the order of turns, each after the last one's answer."""
        self.wait_s: npt.NDArray[np.float64] | None = arrays.get("wait_s")
        """Seconds between the last turn's answer and this request."""
        self._pieces = arrays["pieces"]
        self._starts: list[int] = arrays["piece_starts"].tolist()
        self._texts = _texts(arrays["text"], arrays["text_starts"].tolist())
        self._escaped: Sequence[bytes | memoryview] | None = None

    @classmethod
    def open(cls, path: Path) -> PromptFile:
        """The file, mapped and checked; PromptFileError, also where there is none."""
        try:
            arrays, metadata = read_arrays(path)
            meta = json.loads(metadata["prompts"])
            version = meta["version"]
        except OSError as error:
            raise PromptFileError(f"{path}: {error.strerror or error}") from error
        except ArraysFileError as error:
            raise PromptFileError(str(error)) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise PromptFileError(f"{path}: not a prompt file ({error!r})") from error
        if version != VERSION:
            raise PromptFileError(
                f"{path}: prompt file of version {version}, this reader knows {VERSION}; delete it"
            )
        wrong = "; ".join(faults(arrays, meta))
        if wrong:
            raise PromptFileError(f"{path}: not a prompt file that can be used: {wrong}; delete it")
        return cls(path, arrays, meta)

    def __len__(self) -> int:
        """Requests, warm-up included."""
        return len(self.prompt_tokens)

    @property
    def count(self) -> int:
        """Measured requests."""
        return len(self) - self.warmup

    def text(self, number: int) -> bytes:
        """UTF-8 of a prompt (form ids: its ids, comma-separated)."""
        separator = ID_SEPARATOR if self.form == "ids" else b""
        return separator.join(map(self._texts.__getitem__, self._numbers(number)))

    def ids(self, number: int) -> list[int]:
        """Token ids of a prompt; form ids only."""
        if self.form != "ids":
            raise PromptFileError(f"{self.path}: form {self.form} has text, no token ids")
        text = self.text(number)
        try:
            return [int(word) for word in text.split(ID_SEPARATOR)]
        except ValueError as error:
            raise PromptFileError(
                f"{self.path}: request {number}: no ids: {text[:80]!r}"
            ) from error

    def json_prompt(self, number: int) -> bytes:
        """The prompt as it stands in a JSON body: a list of ids, or a literal with its quotes."""
        if self.form == "ids":
            return b"[%b]" % self.text(number)
        if self._escaped is None:
            self._escaped = self._escape()
        return b'"%b"' % b"".join(map(self._escaped.__getitem__, self._numbers(number)))

    def _numbers(self, number: int) -> list[int]:
        if not 0 <= number < len(self):
            raise IndexError(f"request {number} of {len(self)}")
        found: list[int] = self._pieces[self._starts[number] : self._starts[number + 1]].tolist()
        return found

    def _escape(self) -> Sequence[bytes | memoryview]:
        """The pieces as JSON writes them: a piece is whole UTF-8, so each can be written alone."""
        try:
            escaped = [json.dumps(bytes(text).decode())[1:-1].encode() for text in self._texts]
        except UnicodeDecodeError as error:
            raise PromptFileError(f"{self.path}: its text is not UTF-8 ({error})") from error
        same = all(a == b for a, b in zip(escaped, self._texts, strict=True))
        return self._texts if same else escaped


def _texts(text: Array, starts: Sequence[int]) -> Sequence[bytes | memoryview]:
    """The pieces; copied out of the mapping unless they are large."""
    view = text.data
    parts = [view[a:b] for a, b in itertools.pairwise(starts)]
    return [bytes(part) for part in parts] if len(view) <= LOADED_AT_MOST_BYTES else parts
