"""Probed pieces kept in a file, in the layout of prompt files."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np

from jobs.prompts.arrays_file import Array, read_arrays, write_arrays
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces

COUNTS = ("words", "leads", "blocks", "overhead")


def save_pieces(path: Path, pieces: Pieces) -> None:
    """The pieces at `path`, whole or not at all."""
    starts = np.cumsum([0, *(len(text) for text in pieces.texts)])
    arrays: dict[str, Array] = {
        "text": np.frombuffer(b"".join(pieces.texts), dtype=np.uint8),
        "text_starts": starts.astype(np.int64),
    }
    told = {name: getattr(pieces, name) for name in COUNTS}
    told |= {"form": pieces.form, "identity": pieces.identity}
    told |= {"before": list(pieces.before), "after": list(pieces.after)}
    write_arrays(path, arrays, {"pieces": json.dumps(told)})


def load_pieces(path: Path) -> Pieces:
    """The pieces in a file; PromptError, ArraysFileError, OSError where there are none."""
    arrays, metadata = read_arrays(path)
    try:
        told = json.loads(metadata["pieces"])
        text, starts = arrays["text"].tobytes(), arrays["text_starts"].tolist()
        return Pieces(
            texts=tuple(text[a:b] for a, b in itertools.pairwise(starts)),
            before=tuple(told["before"]),
            after=tuple(told["after"]),
            form=told["form"],
            identity=told["identity"],
            **{name: told[name] for name in COUNTS},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PromptError(f"{path}: no pieces of prompts ({error!r}); delete it") from error
