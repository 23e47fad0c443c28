"""Protocols that engines speak: run.json names one of DIALECTS."""

from __future__ import annotations

from jobs.engines.dialect import Dialect
from jobs.engines.vllm import VllmDialect
from jobs.errors import RunRefusedError

DIALECTS: dict[str, Dialect] = {"vllm": VllmDialect()}


def dialect_of(protocol: str) -> Dialect:
    """The dialect called `protocol`; RunRefusedError lists the known ones."""
    if protocol not in DIALECTS:
        raise RunRefusedError(
            f"engine.protocol {protocol!r}: this release speaks {', '.join(DIALECTS)}"
        )
    return DIALECTS[protocol]
