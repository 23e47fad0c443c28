"""What the job must know of an engine's protocol, in the job's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobs.prometheus import Sample
from jobs.series_page import Family


@dataclass(frozen=True, slots=True)
class StartUp:
    """How far a starting worker is: the place in `Dialect.phases`, and percent where told."""

    phase: str
    percent: int | None = None


FATAL, REQUEST, FOLLOWS = "fatal", "request", "follows"


@dataclass(frozen=True, slots=True)
class Cause:
    """Words in a log, what they mean and what to do next; `example` is a line they are in.

    `kind` FATAL ends a process, REQUEST only spoils requests, FOLLOWS is what others say after
    the real cause struck elsewhere.
    """

    words: re.Pattern[str]
    meaning: str
    advice: str
    example: str
    kind: str = FATAL


def rule(words: str, meaning: str, advice: str, example: str, kind: str = FATAL) -> Cause:
    """A Cause of plain text; case does not matter in `words`."""
    return Cause(re.compile(words, re.IGNORECASE), meaning, advice, example, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCounters:
    """Counters of one or more engines since start; None where an engine does not tell."""

    prompt_tokens: float | None = None
    local_tokens: float | None = None
    cached_tokens: float | None = None
    external_tokens: float | None = None
    generation_tokens: float | None = None
    kv_bytes: float | None = None
    kv_transfers: float | None = None
    kv_failed: float | None = None
    kv_expired: float | None = None
    preemptions: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One engine now: its requests, and all tokens it has read or made since start."""

    running: float
    waiting: float
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A completion: token ids, per token the log probabilities of its candidates, hand-over."""

    token_ids: list[int]
    tops: list[dict[str, float]]
    transfer: dict[str, Any] | None
    prompt_tokens: int | None = None
    chosen: list[str] = field(default_factory=list)


class Dialect(Protocol):
    """One engine protocol: pages, bodies, counters, and words in logs."""

    @property
    def health_path(self) -> str: ...
    @property
    def models_path(self) -> str: ...
    @property
    def metrics_path(self) -> str: ...
    @property
    def completions_path(self) -> str: ...
    @property
    def phases(self) -> Sequence[str]: ...
    @property
    def side_channel_greeting_bytes(self) -> int: ...
    @property
    def causes(self) -> Sequence[Cause]: ...
    @property
    def engine_series(self) -> Mapping[str, Family]: ...
    @property
    def router_series(self) -> Mapping[str, Family]: ...

    def start_up(self, line: str) -> StartUp | None:
        """The phase a log line announces."""

    def is_noise(self, line: str) -> bool:
        """Whether a log line never explains a failure (access logs, banners, statistics)."""

    def rank_headers(self, index: int, served: int) -> dict[str, str]:
        """Headers that send a request to the rank at place `index` of the `served` behind a URL."""

    def served_models(self, payload: Any) -> list[str]:
        """Names on the models page."""

    def engines(self, samples: Sequence[Sample]) -> list[str]:
        """Distinct engine labels, one per rank behind the URL, in rank order."""

    def counters(self, samples: Sequence[Sample], engine: str | None = None) -> EngineCounters:
        """Counters of one engine, or summed over all."""

    def loads(self, page: str) -> dict[str, Load]:
        """Every engine's load on a metrics page, by engine label; cheap on long pages."""

    def is_side_channel(self, greeting: bytes) -> bool:
        """Whether a listener that says this unasked can be a side channel of this engine."""

    def plain(self, model: str, prompt: Sequence[int], tokens: int) -> dict[str, Any]:
        """A greedy completion of exactly `tokens` tokens, with candidates."""

    def prefill(self, model: str, prompt: Sequence[int]) -> dict[str, Any]:
        """The prefill half of a transferred request."""

    def decode(
        self, model: str, prompt: Sequence[int], tokens: int, transfer: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The decode half, with what prefill handed over."""

    def read_answer(self, payload: Any) -> Answer:
        """A completion's JSON; ValueError when it is none."""

    def transfer_problem(self, transfer: Mapping[str, Any] | None) -> str | None:
        """What is wrong with a hand-over; None when decode can use it."""

    def is_first_contact_failure(self, text: str) -> bool:
        """Whether an error is the known one of a pair's first contact, worth one retry."""
