"""What one process keeps of its requests: columns of plain numbers, written once at the end."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from jobs.clients.connection import Exchange
from jobs.clients.failure import Failure

MAX_OFFSET_US = 2**32 - 1


class RequestLog:
    """The requests that ended, in the order they did. Times: seconds of CLOCK_MONOTONIC.

    Chunk times are whole microseconds after sending (the last one at most 71 minutes).
    """

    def __init__(self, prompt_tokens: np.ndarray) -> None:
        self._prompt_tokens = prompt_tokens
        self.whole = {name: array("q") for name in WHOLE}
        self.real = {name: array("d") for name in REAL}
        self.chunk_us: array[int] = array("I")
        self.chunk_tokens: array[int] = array("I")
        self.kinds: list[str] = [""]
        self.samples: dict[str, str] = {}
        self._codes = {"": 0}
        self.done = self.failed = self.tokens = 0
        """Requests that ended, failed ones among them, and tokens of the good ones."""

    def add(self, exchange: Exchange, why: Failure | None) -> None:
        """One request's end."""
        answer = exchange.answer
        times = answer.times
        sent = exchange.sent_s
        self.done += 1
        if why is not None:
            self.failed += 1
            self.samples.setdefault(why.kind, why.text)
        else:
            self.tokens += answer.completion_tokens + int(self._prompt_tokens[exchange.index])
        tokens = answer.chunk_tokens
        whole, real = self.whole, self.real
        whole["index"].append(exchange.index)
        whole["status"].append(exchange.status)
        whole["kind"].append(self._code(why.kind if why else ""))
        whole["server_prompt_tokens"].append(answer.prompt_tokens)
        whole["output_tokens"].append(answer.completion_tokens)
        whole["chunks"].append(len(times))
        whole["counted"].append(len(tokens))
        real["due_s"].append(exchange.due_s)
        real["sent_s"].append(sent)
        real["first_s"].append(times[0] if times else float("nan"))
        real["last_s"].append(times[-1] if times else float("nan"))
        real["end_s"].append(exchange.end_s)
        real["late_s"].append(exchange.late_s)
        self.chunk_us.extend([min(int((at - sent) * 1e6 + 0.5), MAX_OFFSET_US) for at in times])
        self.chunk_tokens.extend(tokens)

    def _code(self, kind: str) -> int:
        if kind not in self._codes:
            self._codes[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._codes[kind]

    def write(self, path: Path, **more: np.ndarray) -> None:
        """Everything into one .npz, and `more` arrays with it."""
        columns = {name: np.asarray(v, np.int64) for name, v in self.whole.items()}
        columns |= {name: np.asarray(v, np.float64) for name, v in self.real.items()}
        columns["chunk_us"] = np.asarray(self.chunk_us, np.uint32)
        columns["chunk_tokens"] = np.asarray(self.chunk_tokens, np.uint32)
        columns["kinds"] = np.array(self.kinds)
        columns["samples"] = np.array([[k, v] for k, v in self.samples.items()], dtype=str)
        np.savez(path, allow_pickle=False, **columns, **more)


WHOLE = ("index", "status", "kind", "server_prompt_tokens", "output_tokens", "chunks", "counted")
REAL = ("due_s", "sent_s", "first_s", "last_s", "end_s", "late_s")
