"""What a client is to send, and where: one value, passed to its processes as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One measurement. Times in seconds, rates in requests a second.

    Without `request_rate` and without arrival times in the prompt file it is a closed loop of
    `concurrency` streams; else requests are sent when they are due, at most `concurrency` at a
    time (0: no limit), as `vllm bench serve --request-rate --max-concurrency` does.
    """

    base_url: str
    model: str
    prompts: str
    """Path of the prompt file (jobs/prompts)."""
    concurrency: int
    endpoint: str = "completions"
    """A key of PATHS; conversations always go to chat."""
    request_rate: float | None = None
    burstiness: float = 1.0
    warmup_rate: float | None = None
    """The warm-up's own request rate; None: a closed loop."""
    ignore_eos: bool = True
    temperature: float = 0.0
    chunk_usage: bool = False
    """Ask the server for token counts in every chunk (vLLM: continuous_usage_stats)."""
    seed: int = 0
    timeout_s: float = 3600.0
    """The longest time one request may take."""
    stall_timeout_s: float = 900.0
    """The longest time without a byte while a request is under way."""
    connect_timeout_s: float = 30.0

    @property
    def connect_limit_s(self) -> float:
        """The longest time a connection may take to open."""
        return min(self.connect_timeout_s, self.timeout_s)

    def share(self, process: int, processes: int) -> Load:
        """One process' part of the concurrent streams."""
        part = self.concurrency // processes + (process < self.concurrency % processes)
        return replace(self, concurrency=part)

    def with_prompts(self, path: Path) -> Load:
        """The same load with its prompt file."""
        return replace(self, prompts=str(path))

    def where(self) -> tuple[str, str, int]:
        """Scheme, host and port; ValueError for anything but http(s)://host[:port]."""
        url = urlsplit(self.base_url)
        if url.scheme not in DEFAULT_PORTS or not url.hostname or url.path.strip("/") or url.query:
            raise ValueError(f"base URL {self.base_url!r}: expected http://host:port, without /v1")
        return url.scheme, url.hostname, url.port or DEFAULT_PORTS[url.scheme]


def load_text(load: Load) -> str:
    """As one line of JSON."""
    return json.dumps(asdict(load))


def load_from_text(text: str) -> Load:
    """What `load_text` gave."""
    return Load(**json.loads(text))
