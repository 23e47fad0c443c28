"""What decides the bytes of a prompt file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from jobs.prompts.errors import PromptError
from jobs.prompts.reader import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Requests to make. Ranges are inclusive token counts as the server counts them."""

    source: str = "random"
    count: int
    warmup: int = 0
    input_range: tuple[int, int]
    output_range: tuple[int, int]
    seed: int = 0

    def check(self) -> None:
        """PromptError for numbers that mean nothing."""
        for name in ("input_range", "output_range"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise PromptError(f"{name} {low} {high}: expected 1 <= low <= high")
        if self.count < 1 or self.warmup < 0:
            raise PromptError(
                f"count {self.count}, warmup {self.warmup}: at least 1 and 0 are needed"
            )

    def key(self, pieces_identity: str) -> str:
        """Name of the file's content: equal keys, equal bytes."""
        told = {"version": VERSION, "pieces": pieces_identity, **asdict(self)}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]
