"""The engines there are, by `engine.kind`."""

from __future__ import annotations

from launcher.engines.base import Engine
from launcher.engines.rehearsal import RehearsalEngine
from launcher.engines.vllm import VllmEngine

ENGINES: dict[str, Engine] = {"vllm": VllmEngine(), "rehearsal": RehearsalEngine()}
