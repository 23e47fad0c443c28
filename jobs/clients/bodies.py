"""A request's bytes: head and JSON body, with the prompt spliced in as it lies in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jobs.clients.load import PATHS, Load
from jobs.prompts.errors import PromptError
from jobs.prompts.reader import PromptFile


class Bodies:
    """Builds the requests of one load.

    PromptError where the endpoint cannot take the file's prompts.
    `history` of `request` is the earlier messages of a conversation, each followed by a comma.
    """

    def __init__(self, load: Load, prompts: PromptFile, api_key: str | None) -> None:
        self.chat = load.endpoint == "chat" or prompts.form == "messages"
        if self.chat and prompts.form == "ids":
            raise PromptError(
                f"{prompts.path}: token ids cannot be sent as a chat: use endpoint completions, or "
                "prompts of form text"
            )
        self._json_prompt = prompts.json_prompt
        _, host, port = load.where()
        name = f"[{host}]" if ":" in host else host
        path = PATHS["chat" if self.chat else "completions"]
        key = f"Authorization: Bearer {api_key}\r\n" if api_key else ""
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {name}:{port}\r\nAccept: text/event-stream\r\n"
            f"Accept-Encoding: identity\r\nContent-Type: application/json\r\n{key}Content-Length: "
        ).encode("latin-1")
        field = "messages" if self.chat else "prompt"
        self._before = f'{{"model":{json.dumps(load.model)},"{field}":'.encode()
        self._after = json.dumps(_rest(load), separators=(",", ":"))[1:].encode()

    def message(self, index: int) -> bytes:
        """The user message of request `index` as JSON."""
        return b'{"role":"user","content":' + self._json_prompt(index) + b"}"

    def request(self, index: int, output_tokens: int, history: bytes = b"") -> bytes:
        """The whole request that asks for `output_tokens` tokens."""
        if self.chat:
            prompt = b"[" + history + self.message(index) + b"]"
        else:
            prompt = self._json_prompt(index)
        limit = b',"max_tokens":%d,' % output_tokens
        length = len(self._before) + len(prompt) + len(limit) + len(self._after)
        head = self._head + b"%d\r\n\r\n" % length
        return b"".join((head, self._before, prompt, limit, self._after))


def assistant(text: str) -> bytes:
    """The answer of an earlier turn as a message."""
    return json.dumps({"role": "assistant", "content": text}).encode()


def _rest(load: Load) -> Mapping[str, Any]:
    options: dict[str, Any] = {"include_usage": True}
    if load.chunk_usage:
        options["continuous_usage_stats"] = True
    return {
        "ignore_eos": load.ignore_eos,
        "temperature": load.temperature,
        "stream": True,
        "stream_options": options,
    }
