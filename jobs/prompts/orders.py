"""What a run orders: all its points' prompt files, as its run.json says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.making import Maker
from jobs.prompts.spec import Spec
from jobs.prompts.tokenizer import ModelTokenizer


@dataclass(frozen=True, slots=True)
class Order:
    """The maker of a run's files, and each file with what goes into it."""

    maker: Maker
    files: list[tuple[Path, Spec]]


def read_order(run_dir: Path) -> Order:
    """The order in a run directory; PromptError where there is none that can be read."""
    path = run_dir / "run.json"
    try:
        told: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["plan"]["prompts"]
        order = told["order"]
        name = order["tokenizer"]
        maker = Maker(
            cache=PromptCache(Path(order["cache"])),
            form=order["form"],
            context=order["context"],
            tokenizer=ModelTokenizer(name, order["trust_remote_code"]) if name else None,
            vocab_size=order["vocab_size"],
            verify=order["verify"],
        )
        files = [(run_dir / f["out"], Spec.of(f["spec"])) for f in order["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PromptError(f"{path}: orders no prompts that can be read ({error!r})") from error
    return Order(maker, files)


def make_files(order: Order) -> None:
    """All files, in the order of the points; PromptError, OSError."""
    for out, spec in order.files:
        order.maker.make(spec, out)
