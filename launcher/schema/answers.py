"""The groups `accuracy` and `canary`: whether what is served is right."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class AccuracyConfig:
    """Questions asked after the sweep."""

    dataset: str = "none"
    """gsm8k | word_problems | none."""
    data_dir: str | None = None
    """Folder with GSM8K's test.jsonl and train.jsonl (fields question, answer)."""
    repeats: int = 1
    num_questions: int | None = None
    """null: all."""
    num_shots: int = 5
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 42
    stop: list[str] = field(default_factory=list)
    concurrency: int = 512
    timeout_s: float = 600.0
    retries: int = 3
    tolerance: float = 0.03


@dataclass
class CanaryConfig:
    """Proof, before the sweep, that KV crosses NIXL and that the state is right."""

    enabled: bool = True
    prompts: int = 8
    tokens: int = 16
    prompt_tokens: int = 300
    form: str = "auto"
    """auto | exact | band. auto: exact where both roles have equal dp and tp and no flag differs
    that changes kernels, else band."""
