"""Is the exported tokenizer the server's? Every text of a probe is encoded by both.

    ENGINE_PYTHON benchmarks/tokenizer_equality.py TOKENIZER_FOLDER ...

For each folder: exports its tokenizer as a run does, probes it once in every context (that is what
prompts are made from), and compares all ids with those of transformers' AutoTokenizer. Exit status
1 when any differ, or the chosen pieces do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.exported import ExportedTokenizer
from jobs.prompts.full_tokenizer import TransformersTokenizer
from jobs.prompts.probe import probe
from jobs.prompts.surround import CONTEXTS
from jobs.prompts.tokenizer import ModelTokenizer


class Compared:
    """A tokenizer that asks two and counts where they differ."""

    def __init__(self, small: ExportedTokenizer, full: TransformersTokenizer) -> None:
        self.name = full.name
        self.small, self.full = small, full
        self.texts = self.tokens_seen = self.differ = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with special tokens."""
        return self._both(self.small.encode(texts), self.full.encode(texts))

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without."""
        return self._both(self.small.encode_plain(texts), self.full.encode_plain(texts))

    def _both(self, small: list[list[int]], full: list[list[int]]) -> list[list[int]]:
        self.texts += len(full)
        self.tokens_seen += sum(map(len, full))
        self.differ += sum(a != b for a, b in zip(small, full, strict=True))
        return full

    def tokens(self) -> list[tuple[int, str]]:
        """The full tokenizer's; the exported one may lack only such as are not ASCII."""
        full, small = self.full.tokens(), set(self.small.tokens())
        self.differ += sum(t.isascii() and (i, t) not in small for i, t in full)
        return full

    def template_date(self) -> str:
        """The full tokenizer's; both must say the same."""
        self.differ += self.small.template_date() != self.full.template_date()
        return self.full.template_date()

    def date_tokens(self) -> int:
        """The same of what other days change."""
        self.differ += self.small.date_tokens() != self.full.date_tokens()
        return self.full.date_tokens()

    def render(self, content: str) -> str:
        """A message in the template."""
        text = self.full.render(content)
        self.differ += self.small.render(content) != text
        return text


def compared(folder: str, scratch: Path) -> dict[str, Any]:
    """What was found for one tokenizer."""
    small = ModelTokenizer(folder, cache=PromptCache(scratch)).load()
    full = TransformersTokenizer(folder)
    if not isinstance(small, ExportedTokenizer):
        return {"exported": False, "differ": 0}
    both = Compared(small, full)
    pieces = {}
    for context in CONTEXTS:
        try:
            pieces[context] = probe(both, context, "") == probe(small, context, "")
        except PromptError as error:
            pieces[context] = str(error)
    wrong = sum(found is False for found in pieces.values())
    return {
        "exported": True,
        "vocabulary": [len(list(small.tokens())), len(full.tokens())],
        "texts": both.texts,
        "tokens": both.tokens_seen,
        "differ": both.differ + wrong,
        "pieces": pieces,
    }


def main() -> int:
    """The program; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+")
    bad = 0
    for folder in parser.parse_args().folders:
        with tempfile.TemporaryDirectory() as scratch:
            found = compared(folder, Path(scratch))
        bad += found["differ"]
        sys.stdout.write(f"{Path(folder).name}: {found}\n")
        sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
