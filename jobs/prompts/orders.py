"""What a run orders: all its points' prompt files, as its run.json says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.prompts.cache import PromptCache, own_folder
from jobs.prompts.errors import PromptError
from jobs.prompts.making import Maker
from jobs.prompts.server_mode import AUTO
from jobs.prompts.spec import Spec
from jobs.prompts.tokenizer import ModelTokenizer


@dataclass(frozen=True, slots=True)
class Ordered:
    """One file: who makes it, what goes into it, where it is to be."""

    maker: Maker
    spec: Spec
    out: Path


def read_order(run_dir: Path) -> list[Ordered]:
    """The files of a run, in the order of its points; PromptError where it orders none."""
    path = run_dir / "run.json"
    try:
        order = json.loads(path.read_text(encoding="utf-8"))["plan"]["prompts"]["order"]
        cache = PromptCache(_usable(Path(order["cache"])))
        shared: Mapping[str, Any] = {
            "cache": cache,
            "tokenizer": ModelTokenizer(
                order["tokenizer"],
                order["trust_remote_code"],
                cache,
                order.get("tokenizer_mode", AUTO),
            ),
            "vocab_size": order["vocab_size"],
        }
        makers: dict[tuple[str, ...], Maker] = {}
        files = []
        for file in order["files"]:
            how = (file["form"], file["context"], file["verify"])
            if how not in makers:
                form, context, check = how
                makers[how] = Maker(form=form, context=context, verify=check, **shared)
            files.append(Ordered(makers[how], Spec.of(file["spec"]), run_dir / file["out"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PromptError(f"{path}: orders no prompts that can be read ({error!r})") from error
    return files


def _usable(folder: Path) -> Path:
    """The cache's folder, or the user's own beside it; one that cannot be made is told of later."""
    with contextlib.suppress(OSError):
        return own_folder(folder)
    return folder


def make_files(files: Sequence[Ordered]) -> None:
    """All files, each there as soon as it is made; PromptError, OSError."""
    for file in files:
        file.maker.make(file.spec, file.out)
