"""Answers in vLLM's JSON: whole completions, stream chunks, errors."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from jobs.rehearsal.engine import Token
from jobs.rehearsal.model import token_text
from jobs.rehearsal.requests import Ask

DONE = b"data: [DONE]\n\n"


def event(data: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def error_body(message: str, kind: str, code: int) -> dict[str, Any]:
    """vLLM's error object."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes one request's answer."""

    ask: Ask
    request_id: str
    model: str

    def usage(self, made: int) -> dict[str, int]:
        """Token counts as vLLM reports them."""
        prompt = len(self.ask.prompt)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": made,
            "total_tokens": prompt + made,
        }

    def whole(self, tokens: list[Token], kv: dict[str, Any] | None) -> dict[str, Any]:
        """A plain answer."""
        text = "".join(token.text for token in tokens)
        choice: dict[str, Any] = {"index": 0}
        if self.ask.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        choice |= {
            "logprobs": self._logprobs(tokens),
            "finish_reason": tokens[-1].finish,
            "stop_reason": None,
        }
        if self.ask.return_token_ids:
            choice |= {
                "token_ids": [token.id for token in tokens],
                "prompt_token_ids": self.ask.prompt,
            }
        return {
            **self._head("chat.completion" if self.ask.chat else "text_completion"),
            "choices": [choice],
            "usage": self.usage(len(tokens)),
            "kv_transfer_params": kv,
        }

    def chunk(self, token: Token, first: bool) -> bytes:
        """A stream's event for one token."""
        choice: dict[str, Any] = {"index": 0}
        if self.ask.chat:
            choice["delta"] = {"content": token.text}
            if first:
                choice["delta"]["role"] = "assistant"
        else:
            choice["text"] = token.text
        choice |= {"logprobs": self._logprobs([token]), "finish_reason": token.finish}
        if self.ask.return_token_ids:
            choice["token_ids"] = [token.id]
            choice["prompt_token_ids"] = self.ask.prompt if first else None
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return event({**self._head(kind), "choices": [choice]})

    def usage_chunk(self, made: int) -> bytes:
        """The last event before [DONE] when usage is asked for."""
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return event({**self._head(kind), "choices": [], "usage": self.usage(made)})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }

    def _logprobs(self, tokens: list[Token]) -> dict[str, Any] | None:
        wanted = self.ask.logprobs
        if wanted is None:
            return None
        if self.ask.chat:
            return {"content": [self._chat_logprob(token, wanted) for token in tokens]}
        return {
            "text_offset": [0] * len(tokens),
            "tokens": [self._name(token.id) for token in tokens],
            "token_logprobs": [token.top[0][1] for token in tokens],
            "top_logprobs": [
                {self._name(t): logprob for t, logprob in token.top[: max(wanted, 1)]}
                for token in tokens
            ],
        }

    def _chat_logprob(self, token: Token, wanted: int) -> dict[str, Any]:
        entries = [
            {"token": self._name(t), "logprob": logprob, "bytes": list(token_text(t).encode())}
            for t, logprob in token.top
        ]
        return {**entries[0], "top_logprobs": entries[:wanted]}

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self.ask.tokens_as_ids else token_text(token)
