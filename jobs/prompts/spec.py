"""What decides the bytes of a prompt file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jobs.prompts.errors import PromptError
from jobs.prompts.reader import VERSION

SOURCES = ("random", "shared_prefix", "multi_turn", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Requests to make. Ranges are inclusive token counts as the server counts them."""

    source: str = "random"
    count: int
    warmup: int = 0
    input_range: tuple[int, int] = (1, 1)
    output_range: tuple[int, int] = (1, 1)
    seed: int = 0
    template_ratio: float | None = None
    """sa-bench with a chat template: the range's lower end is this share of what the template
    leaves, plus the template (InferenceX bench_serving, sample_random_requests)."""
    prefix_tokens: int = 0
    """shared_prefix: tokens of a prompt, special tokens and template included, that it shares."""
    prefix_groups: int = 1
    """shared_prefix: how many different prefixes there are."""
    turns: int = 1
    """multi_turn: user messages of a session."""
    wait_s: float = 0.0
    """multi_turn: seconds between an answer and the next message."""
    trace_path: str = ""
    trace_sha256: str = ""
    """Hash of the trace's content: it, not the path, decides the bytes."""
    trace_block_tokens: int = 512
    """trace: tokens of one of its hashed blocks (Mooncake: 512)."""
    trace_speed: float = 1.0
    """trace: times are divided by this."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Spec:
        """From JSON; PromptError for a wrong name or value."""
        try:
            values = {**document}
            for name in ("input_range", "output_range"):
                if name in values:
                    low, high = values[name]
                    values[name] = (int(low), int(high))
            spec = cls(**values)
        except (TypeError, ValueError) as error:
            raise PromptError(f"no description of requests: {error}") from error
        spec.check()
        return spec

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
        if self.source not in SOURCES:
            raise PromptError(f"source {self.source!r}: allowed: {', '.join(SOURCES)}")
        for name in ("prefix_groups", "turns", "trace_block_tokens", "trace_speed"):
            if getattr(self, name) <= 0:
                raise PromptError(f"{name} {getattr(self, name)}: must be above 0")
        if self.source == "trace" and not self.trace_path:
            raise PromptError("source trace: needs trace_path")

    def key(self, pieces_identity: str) -> str:
        """Name of the file's content: equal keys, equal bytes."""
        told = {"version": VERSION, "pieces": pieces_identity, **asdict(self), "trace_path": ""}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]
