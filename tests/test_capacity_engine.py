"""Our capacity equals what the real vLLM logs: EngineCore started per case, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capacity_cases import CASES, Case, model_folder, ours
from tests.capacity_check import expected, in_process
from tests.engine import ENGINE_ENV, needs_engine

CHOSEN = (
    *("dense block 32", "hybrid bf16 states", "hybrid fp32 states", "hybrid fp8 KV"),
    *("hybrid prefix caching", "hybrid wide fp32 states", "7 layers: padded group"),
    *("7 layers: larger group", "hybrid, too long"),
)
"""One of each kind; `python -m tests.capacity_check` runs them all and whole servers too."""


def case_named(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.name == name)


@pytest.mark.engine
@needs_engine
def test_our_numbers_equal_those_that_vllm_logs(tmp_path: Path) -> None:
    cases = [case_named(name) for name in CHOSEN]
    logged = in_process(cases, tmp_path)
    assert set(logged) == set(CHOSEN)
    for case in cases:
        real = logged[case.name]
        folder = model_folder(case, ENGINE_ENV / "models", tmp_path)
        assert expected(ours(case, folder, real.release)) == real.facts(), case.name
    aligned = [real for real in logged.values() if real.aligned is not None]
    assert aligned
    assert all(real.aligned == real.block_tokens for real in aligned)
