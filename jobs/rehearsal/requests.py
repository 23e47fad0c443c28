"""What a completion request asks for, read from vLLM's JSON body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.rehearsal.model import MAX_TOKEN_ID, TOP, tokenize

DEFAULT_MAX_TOKENS = 16
DEFAULT_CHAT_MAX_TOKENS = 256


class RequestError(ValueError):
    """A body that vLLM would answer with 400, or that the rehearsal engine cannot imitate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. `logprobs` is how many alternatives are wanted; None = none at all.

    `tokens_as_ids`: log probabilities are keyed "token_id:N" instead of by text.
    """

    chat: bool
    prompt: list[int]
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    logprobs: int | None
    return_token_ids: bool
    tokens_as_ids: bool
    salt: str
    kv: dict[str, Any]

    @property
    def remote_decode(self) -> bool:
        """This is the prefill half: keep the state for somebody else."""
        return bool(self.kv.get("do_remote_decode"))

    @property
    def remote_prefill(self) -> bool:
        """This is the decode half: somebody else has the state, and says where.

        Incomplete parameters are ignored, as vLLM does (with a warning), so that the prompt is
        computed here.
        """
        wanted = ("remote_host", "remote_port", "remote_request_id", "remote_engine_id")
        return bool(self.kv.get("do_remote_prefill")) and all(self.kv.get(key) for key in wanted)


def read_ask(body: Any, chat: bool, max_model_len: int) -> Ask:
    """The request in `body`; RequestError names the field and what is expected."""
    if not isinstance(body, dict):
        raise RequestError(f"body: expected a JSON object, found {type(body).__name__}")
    if body.get("n", 1) not in (1, None) or body.get("echo"):
        raise RequestError("n > 1 and echo are not imitated by the rehearsal engine")
    prompt = chat_tokens(body.get("messages")) if chat else prompt_tokens(body.get("prompt"))
    default = DEFAULT_CHAT_MAX_TOKENS if chat else DEFAULT_MAX_TOKENS
    asked = body.get("max_completion_tokens") if chat else None
    asked = body.get("max_tokens") if asked is None else asked
    max_tokens = _count("max_tokens", asked, default, 1)
    if len(prompt) + max_tokens > max_model_len:
        raise RequestError(
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {max_tokens} output tokens and your prompt contains {len(prompt)} tokens."
        )
    sampled = float(body.get("temperature") or 0.0) > 0
    return Ask(
        chat=chat,
        prompt=prompt,
        max_tokens=max_tokens,
        min_tokens=_count("min_tokens", body.get("min_tokens"), 0, 0),
        ignore_eos=bool(body.get("ignore_eos")),
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        logprobs=_logprobs(body, chat),
        return_token_ids=bool(body.get("return_token_ids")),
        tokens_as_ids=bool(body.get("return_tokens_as_token_ids")),
        salt=f":{body.get('seed') or 0}" if sampled else "",
        kv=body.get("kv_transfer_params") or {},
    )


def prompt_tokens(prompt: Any) -> list[int]:
    """Token ids of a prompt given as a text, as token ids, or as a list holding one of these."""
    match prompt:
        case str():
            return tokenize(prompt)
        case [str() | list()]:
            return prompt_tokens(prompt[0])
        case [int(), *_]:
            if all(type(t) is int and 0 <= t <= MAX_TOKEN_ID for t in prompt):
                return list(prompt)
            raise RequestError(f"prompt: token ids must be whole numbers in 0..{MAX_TOKEN_ID}")
    raise RequestError("prompt: expected one text or one non-empty list of token ids")


def chat_tokens(messages: Any) -> list[int]:
    """Token ids of a chat under the rehearsal engine's own, very plain template."""
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise RequestError("messages: expected a list of objects with role and content")
    turns = [f"<|{m.get('role')}|>{m.get('content')}\n" for m in messages]
    return tokenize("".join(turns) + "<|assistant|>")


def _logprobs(body: dict[str, Any], chat: bool) -> int | None:
    if chat:
        wanted = body.get("top_logprobs") or 0 if body.get("logprobs") else None
    else:
        wanted = body.get("logprobs")
    if wanted is None or wanted is False:
        return None
    return min(_count("logprobs", wanted, 0, 0), TOP)


def _count(name: str, value: Any, default: int, low: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or value < low:
        raise RequestError(f"{name}: expected a whole number of at least {low}, found {value!r}")
    return int(value)
