"""What the events of one streamed answer say, and whether they are a whole, right answer."""

from __future__ import annotations

from array import array
from typing import Any, TypeGuard

import orjson

from jobs.clients.failure import Failure, failure
from jobs.clients.sse import ErrorData

DONE = b"[DONE]"
CHUNK_SLACK = 16
"""Chunks beyond one per token that are still read: servers send empty ones (role, finish)."""
BAD_ENDS = ("error", "abort")


class Answer:
    """One answer as far as it came.

    A chunk is an event with a choice, as `vllm bench serve` counts them (the text may be empty);
    the chat event that holds nothing but the role is none. `times` are seconds on the clock the
    caller uses. `tokens` are the tokens of each chunk where the server tells them (usage in every
    chunk), else empty.
    """

    __slots__ = (
        *("completion_tokens", "done", "keep_text", "prompt_tokens", "texts", "times", "tokens"),
        *("wanted", "wrong"),
    )

    def __init__(self, wanted: int, keep_text: bool = False) -> None:
        self.wanted = wanted
        self.times: array[float] = array("d")
        self.tokens: array[int] = array("I")
        self.prompt_tokens = -1
        self.completion_tokens = -1
        self.done = False
        self.wrong: Failure | None = None
        self.keep_text = keep_text
        self.texts: list[str] = []

    def take(self, data: bytes, at: float) -> None:
        """One event's data that came at `at`; sets `wrong` when it cannot be right."""
        if self.done:
            self.wrong = failure("after_done", f"after [DONE]: {data[:200]!r}")
            return
        if data == DONE:
            self.done = True
            return
        if isinstance(data, ErrorData):
            self.wrong = failure("stream_error", data.decode("utf-8", "replace"))
            return
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            self.wrong = failure("bad_json", f"{error}: {data[:200]!r}")
            return
        if not isinstance(body, dict):
            self.wrong = failure("bad_json", f"event is no object: {data[:200]!r}")
        elif body.get("error") or body.get("object") == "error":
            self.wrong = failure("stream_error", str(body.get("error") or body))
        else:
            self._take(body, at)

    def _take(self, body: dict[str, Any], at: float) -> None:
        choices = body.get("choices")
        chunk = False
        if choices:
            if not isinstance(choices, list) or not isinstance(choices[0], dict):
                self.wrong = failure("bad_event", f"choices: {choices!r}")
                return
            chunk = self._choice(choices[0])
            if chunk:
                self.times.append(at)
        usage = body.get("usage")
        if usage is not None:
            self._usage(usage, chunk)
        if len(self.times) > self.wanted + CHUNK_SLACK:
            self.wrong = failure("too_many_chunks", f"{len(self.times)} for {self.wanted} tokens")

    def _choice(self, choice: dict[str, Any]) -> bool:
        """Whether this choice is a chunk of the answer."""
        end = choice.get("finish_reason")
        if end in BAD_ENDS:
            self.wrong = failure("stream_error", f"finish_reason {end}")
        delta = choice.get("delta")
        if delta is None:
            if self.keep_text:
                self._text(choice.get("text"))
            return True
        if not isinstance(delta, dict):
            self.wrong = failure("bad_event", f"delta: {delta!r}")
            return False
        if self.keep_text:
            self._text(delta.get("content"))
        return bool(end or not delta.get("role") or any(delta[k] for k in delta if k != "role"))

    def _text(self, text: object) -> None:
        if isinstance(text, str) and text:
            self.texts.append(text)

    def _usage(self, usage: object, chunk: bool) -> None:
        if not isinstance(usage, dict):
            self.wrong = failure("bad_usage", f"usage: {usage!r}")
            return
        made, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if not _is_count(made) or not (prompt is None or _is_count(prompt)):
            self.wrong = failure("bad_usage", f"usage: {usage!r}")
            return
        if chunk:
            self.tokens.append(max(0, made - max(self.completion_tokens, 0)))
        self.completion_tokens = made
        if prompt is not None:
            self.prompt_tokens = prompt

    def verdict(self, exact: bool) -> Failure | None:
        """Why this is no good answer now that it ended; None when it is one.

        `exact`: it has to have the wanted number of tokens (ignore_eos), not just at most so many.
        """
        if self.wrong:
            return self.wrong
        if not self.done:
            return failure("no_done", f"stream ended after {len(self.times)} chunks")
        if self.completion_tokens < 0:
            return failure("no_usage", f"{len(self.times)} chunks, no usage")
        if not self.times or not self.completion_tokens:
            return failure(
                "no_tokens", f"{len(self.times)} chunks, {self.completion_tokens} tokens"
            )
        made = self.completion_tokens
        if made > self.wanted or (exact and made != self.wanted):
            return failure("token_count", f"{made} tokens, {self.wanted} wanted")
        return None

    @property
    def chunk_tokens(self) -> array[int]:
        """Tokens of each chunk; empty where the server did not tell them."""
        return self.tokens if len(self.tokens) == len(self.times) else array("I")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
