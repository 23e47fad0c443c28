"""Reads a recorded trace in Mooncake's format, one request a line, every field checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.prompts.errors import PromptError

MOST_TOKENS = 2**31 - 1
MOST_MS = 1e12
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Trace:
    """The first lines of a trace: one entry a request, in the order of arrival."""

    arrival_s: list[float]
    input_tokens: list[int]
    output_tokens: list[int]
    hash_ids: list[list[int]]


def trace_hash(path: Path) -> str:
    """SHA-256 of the file; PromptError when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise PromptError(f"trace {path}: {error.strerror or error}") from error


def read_trace(path: Path, count: int, block_tokens: int) -> Trace:
    """The first `count` requests; PromptError for a line that is none, and for too few."""
    trace = Trace([], [], [], [])
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if len(trace.arrival_s) == count:
                break
            if line.strip():
                _add(trace, line, f"trace {path}, line {number}", block_tokens)
    if len(trace.arrival_s) < count:
        raise PromptError(
            f"trace {path} has {len(trace.arrival_s)} requests, the point has {count}: lower "
            "workload.concurrency or workload.prompts_per_concurrency"
        )
    return trace


def _add(trace: Trace, line: bytes, where: str, block_tokens: int) -> None:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where}: {_shown(line)}: not a line of JSON ({error})") from error
    if not isinstance(told, dict):
        raise PromptError(f"{where}: {_shown(line)}: not a JSON object with a request's fields")
    time_s = _time_ms(told, where) / 1000.0
    if trace.arrival_s and time_s < trace.arrival_s[-1]:
        raise PromptError(
            f"{where}: timestamp {told['timestamp']}: before the last one, "
            f"{trace.arrival_s[-1] * 1000.0:g}; sort the trace by its timestamps"
        )
    tokens = _tokens(told, "input_length", where)
    ids = _ids(told, where)
    blocks = -(-tokens // block_tokens)
    if len(ids) > blocks:
        raise PromptError(
            f"{where}: hash_ids has {len(ids)} entries, and input_length {tokens} is {blocks} "
            f"blocks of {block_tokens} tokens; set workload.trace.block_tokens to the trace's own"
        )
    trace.arrival_s.append(time_s)
    trace.input_tokens.append(tokens)
    trace.output_tokens.append(_tokens(told, "output_length", where))
    trace.hash_ids.append(ids)


def _time_ms(told: Mapping[str, Any], where: str) -> float:
    value = _field(told, "timestamp", where)
    if type(value) not in (int, float) or not 0 <= value < MOST_MS:
        raise PromptError(
            f"{where}: timestamp {_shown(value)}: allowed: milliseconds from 0 to {MOST_MS:g}"
        )
    return float(value)


def _tokens(told: Mapping[str, Any], name: str, where: str) -> int:
    value = _field(told, name, where)
    if type(value) is not int or not 1 <= value <= MOST_TOKENS:
        raise PromptError(
            f"{where}: {name} {_shown(value)}: allowed: whole tokens from 1 to {MOST_TOKENS}"
        )
    return value


def _ids(told: Mapping[str, Any], where: str) -> list[int]:
    value = told.get("hash_ids")
    if value is None:
        return []
    if not isinstance(value, list) or any(type(number) is not int for number in value):
        raise PromptError(f"{where}: hash_ids {_shown(value)}: allowed: a list of whole numbers")
    return value


def _field(told: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in told:
        raise PromptError(
            f"{where}: has no {name}; a request has timestamp (ms), input_length, output_length "
            f"and may have hash_ids, this one has {_shown(', '.join(told))}"
        )
    return told[name]


def _shown(value: object) -> str:
    text = value.decode(errors="replace").strip() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
