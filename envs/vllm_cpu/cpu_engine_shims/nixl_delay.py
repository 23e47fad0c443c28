"""A NIXL progress thread that sleeps between polls, for machines with few cores."""

from __future__ import annotations

import importlib
from typing import Any

BINDINGS = ("nixl_cu13._bindings", "nixl_cu12._bindings")


def install(delay_us: int) -> None:
    """Every agent configured from now on polls each `delay_us` microseconds."""
    for name in BINDINGS:
        try:
            bindings: Any = importlib.import_module(name)
        except ImportError:
            continue
        if not getattr(bindings.nixlAgentConfig, "slow_polling", False):
            bindings.nixlAgentConfig = _slow(bindings.nixlAgentConfig, delay_us)


def _slow(base: Any, delay_us: int) -> Any:
    """NIXL's config class with its polling delay fixed at `delay_us`."""

    class SlowConfig(base):  # type: ignore[misc]
        slow_polling = True

        def __setattr__(self, name: str, value: Any) -> None:
            base.__setattr__(self, name, delay_us if name == "pthrDelay" else value)

    return SlowConfig
