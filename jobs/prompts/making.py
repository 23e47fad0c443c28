"""From a description to prompt files: pieces probed or remembered, files made or remembered."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces, id_pieces
from jobs.prompts.pieces_file import load_pieces, save_pieces
from jobs.prompts.probe import NoSafePiecesError, probe
from jobs.prompts.reader import PromptFile, write_prompt_file
from jobs.prompts.repair import repaired_requests
from jobs.prompts.sources import make_requests
from jobs.prompts.spec import Spec
from jobs.prompts.surround import CONTEXTS, Surround, surround_of
from jobs.prompts.template_date import FIXED
from jobs.prompts.tokenizer import TextTokenizer, TokenizerSource
from jobs.prompts.trace_file import trace_hash
from jobs.prompts.verify import verify
from jobs.prompts.words import single_token_words

PROBE_VERSION = 1
"""Raised when other pieces are chosen than before: remembered ones are then not used."""

log = logging.getLogger("prompts")


@dataclass(slots=True, kw_only=True)
class Maker:
    """Makes prompt files for one tokenizer and one way of sending."""

    cache: PromptCache
    form: str
    """ids | text."""
    context: str = "plain"
    """plain | template | messages (surround.py)."""
    tokenizer: TokenizerSource | None = None
    vocab_size: int = 0
    """Form ids without tokenizer: ids are drawn below it."""
    verify: str = "auto"
    """auto | all | how many prompts of a new file are encoded again."""
    _pieces: Pieces | None = field(default=None, init=False)
    _unsafe: str = field(default="", init=False)
    _own: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)
    """This process's own cache, where the given one cannot be used."""

    def make(self, spec: Spec, out: Path) -> None:
        """The file of a spec at `out`, whole or not at all; PromptError, OSError."""
        begun = time.monotonic()
        if spec.source == "trace":
            spec = replace(spec, trace_sha256=trace_hash(Path(spec.trace_path)))
        key = spec.key(self.identity())
        try:
            was_there = self._cached(key, spec, out)
        except OSError as error:
            if self._own is not None:
                raise
            log.warning("prompts are made and not kept, their cache cannot be used: %s", error)
            self._own = tempfile.TemporaryDirectory(prefix="prompts-")
            self.cache = PromptCache(Path(self._own.name))
            was_there = self._cached(key, spec, out)
        how = "kept from before" if was_there else f"made in {time.monotonic() - begun:.1f} s"
        log.info("%d prompts %s: %s", spec.count + spec.warmup, how, out)

    def _cached(self, key: str, spec: Spec, out: Path) -> bool:
        """Has the file by way of the cache: whether it was there."""
        was_there = self.cache.get(key, PromptFile.open, lambda path: self._write(spec, path))
        self.cache.hand_out(key, out)
        return was_there

    def identity(self) -> str:
        """What the pieces are made from, as text."""
        if self.context not in CONTEXTS:
            raise PromptError(f"context {self.context!r}: allowed: {', '.join(CONTEXTS)}")
        if self.form == "ids":
            if self.vocab_size < 1:
                raise PromptError(f"vocab_size {self.vocab_size}: form ids needs 1 or more")
            return f"ids below {self.vocab_size}"
        if self.tokenizer is None:
            raise PromptError("form text needs a tokenizer")
        # A template is rendered once, and says one day (template_date.py).
        said = self.context if self.context == "plain" else f"{self.context} of {FIXED:%Y-%m-%d}"
        return f"{said}, probe {PROBE_VERSION}, tokenizer {self.tokenizer.identity()}"

    def _write(self, spec: Spec, path: Path) -> None:
        if self.form == "ids":
            drawn = id_pieces(self.vocab_size)
            write_prompt_file(path, make_requests(spec, drawn), drawn, self._meta(spec, 0))
            return
        pieces = self._known_pieces()
        if pieces is None:
            self._write_repaired(spec, path)
            return
        requests = make_requests(spec, pieces)
        surround = self._surround()
        aside = path.with_suffix(".unchecked")
        try:
            write_prompt_file(aside, requests, pieces, {})
            checked = verify(PromptFile.open(aside), surround, self.verify)
            write_prompt_file(path, requests, pieces, self._meta(spec, checked))
        finally:
            aside.unlink(missing_ok=True)

    def _write_repaired(self, spec: Spec, path: Path) -> None:
        if spec.source != "random":
            raise PromptError(
                f"source {spec.source} needs pieces that can be joined, and this tokenizer has "
                f"none: {self._unsafe}"
            )
        surround = self._surround()
        words = single_token_words(surround.tokenizer)
        requests, pieces = repaired_requests(spec, words, surround, self.identity())
        meta = self._meta(spec, spec.count + spec.warmup) | {"unsafe": self._unsafe}
        write_prompt_file(path, requests, pieces, meta)

    def _known_pieces(self) -> Pieces | None:
        """The tokenizer's pieces, probed once; None, and the reason told, where it has none."""
        if self._pieces is None and not self._unsafe:
            key = "pieces-" + hashlib.sha256(self.identity().encode()).hexdigest()[:32]
            try:
                self.cache.get(key, load_pieces, self._probe)
                self._pieces = load_pieces(self.cache.path(key))
            except NoSafePiecesError as error:
                self._unsafe = str(error)
                log.warning(
                    "no blocks of this tokenizer can be joined in any order (%s): every prompt is "
                    "encoded and mended instead, which takes an encoding or two of each",
                    error,
                )
        return self._pieces

    def _probe(self, path: Path) -> None:
        begun = time.monotonic()
        pieces = probe(self._loaded(), self.context, self.identity())
        save_pieces(path, pieces)
        log.info(
            "tokenizer probed in %.1f s: %d words that join in any order, %d blocks",
            time.monotonic() - begun,
            pieces.words,
            pieces.blocks,
        )

    def _surround(self) -> Surround:
        return surround_of(self._loaded(), self.context)

    def _loaded(self) -> TextTokenizer:
        if self.tokenizer is None:
            raise PromptError("form text needs a tokenizer")
        return self.tokenizer.load()

    def _meta(self, spec: Spec, checked: int) -> dict[str, Any]:
        meta = {**asdict(spec), "pieces_of": self.identity(), "encoded_again": checked}
        return meta | self._dated()

    def _dated(self) -> dict[str, Any]:
        """What a file is told of the date in its chat template, where there is one."""
        if self.form == "ids" or self.context == "plain":
            return {}
        tokenizer = self._loaded()
        if not (date := tokenizer.template_date()):
            return {}
        if self.context == "template":
            log.info("the chat template says the date: every prompt says %s", date)
            return {"template_date": date}
        off = tokenizer.date_tokens()
        log.log(
            logging.WARNING if off else logging.INFO,
            "the chat template says the date, on the server its own: prompts have %s",
            f"up to {off} tokens more or fewer than told" if off else "the same length on all days",
        )
        return {"template_date": "the server's", "date_tokens": off}
