"""Flags that prefill and decode must have alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.known_bad.entry import HASH, WORKER, KnownBad
from launcher.known_bad.view import RoleView, View
from launcher.options.values import plain_text

SAME_DTYPE = {"half": "float16", "float": "float32"}
"""vLLM 0.33.0 config/model.py:2317, _STR_DTYPE_TO_TORCH_DTYPE."""


def _effective(view: View, role: RoleView, flag: str) -> Any:
    """A flag's value as text, `auto` as the model has it, mappings as they are."""
    value = role.flags.get(flag, "auto")
    if isinstance(value, Mapping):
        return value
    value = plain_text(value)
    if flag == "mamba-ssm-cache-dtype" and value == "auto":
        return view.facts.ssm_dtype or "auto"
    if flag in ("dtype", "mamba-cache-dtype"):
        value = SAME_DTYPE.get(value, value)
        if flag == "mamba-cache-dtype" and value == "auto":
            return _effective(view, role, "dtype")
        return (view.facts.dtype or "auto") if value == "auto" else value
    return value


def _differs(flag: str, why: str) -> Any:
    """A check that both roles have the same effective value of a flag."""

    def check(view: View) -> Iterator[str]:
        if view.pair is None:
            return
        prefill, decode = view.pair
        ours, theirs = _effective(view, prefill, flag), _effective(view, decode, flag)
        if ours != theirs:
            told = prefill if flag in prefill.flags else decode
            yield f"{told.at(flag)}: prefill has {ours}, decode has {theirs}: {why}"

    return check


def _equal(flag: str, value: str, why: str, reference: str) -> KnownBad:
    return KnownBad(
        name=f"{flag}-differs",
        level="error",
        check=_differs(flag, why),
        remedy=f"give both roles the same value in flags.all.{flag}",
        reference=reference,
        example=(f"+flags.roles.prefill.{flag}={value}",),
        near_miss=(f"++flags.all.{flag}={value}",),
    )


ENTRIES = (
    _equal("block-size", "64", "the hand-over fails in every request", "vllm#42895"),
    KnownBad(
        name="kv-cache-dtype-differs",
        level="error",
        check=_differs("kv-cache-dtype", "the handshake refuses it"),
        remedy="give both roles the same value in flags.all.kv-cache-dtype",
        reference=HASH,
        example=("+flags.roles.decode.kv-cache-dtype=bfloat16",),
        near_miss=("flags.all.kv-cache-dtype=bfloat16",),
    ),
    _equal(
        "mamba-ssm-cache-dtype",
        "float32",
        "the handshake does not compare it, so decode would read wrong bytes without an error",
        f"{WORKER}, _build_mamba_remote",
    ),
    _equal(
        "mamba-cache-dtype",
        "float16",
        "the handshake does not compare it, so decode would read wrong bytes without an error",
        f"{WORKER}, _build_mamba_remote",
    ),
    _equal("dtype", "float16", "the handshake refuses it", HASH),
    _equal("quantization", "fp8", "both must hold the same model", HASH),
    _equal("attention-backend", "FLASH_ATTN", "the handshake refuses it", HASH),
    _equal("revision", "main", "both must hold the same model", HASH),
    KnownBad(
        name="speculative-config-differs",
        level="error",
        check=_differs("speculative-config", "the draft layers' KV is part of the hand-over"),
        remedy="give both roles the same flags.all.speculative-config",
        reference=HASH,
        example=("+flags.roles.decode.speculative-config={method:mtp,num_speculative_tokens:1}",),
        near_miss=("+flags.all.speculative-config={method:mtp,num_speculative_tokens:1}",),
    ),
)
