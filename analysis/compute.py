"""Facts to columns: the few shapes a computation takes, missing staying missing."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

Compute = Callable[[pd.DataFrame], "pd.Series[float]"]


def fact(name: str) -> Compute:
    """The fact as it is."""

    def compute(facts: pd.DataFrame) -> pd.Series[float]:
        if name not in facts.columns:
            return pd.Series(float("nan"), index=facts.index, dtype="object")
        return facts[name]

    return compute


def _number(facts: pd.DataFrame, name: str) -> pd.Series[float]:
    return fact(name)(facts).astype("float64")


def _ratio(top: pd.Series[float], bottom: pd.Series[float]) -> pd.Series[float]:
    """top / bottom, missing where bottom is missing or zero."""
    return top / bottom.where(bottom > 0)


def rate(*tokens: str, gpus: str | None = None) -> Compute:
    """Tokens per second, per GPU of a kind when `gpus` names one."""

    def compute(facts: pd.DataFrame) -> pd.Series[float]:
        total = sum((_number(facts, name) for name in tokens), start=pd.Series(0.0, facts.index))
        per_second = _ratio(total, _number(facts, "duration_s"))
        return _ratio(per_second, _number(facts, gpus)) if gpus else per_second

    return compute


def half_width(low: str, high: str) -> Compute:
    """Half of what lies between two facts."""
    return lambda facts: (_number(facts, high) - _number(facts, low)) / 2


def per_user(facts: pd.DataFrame) -> pd.Series[float]:
    """Tokens per second one user sees: 1000 / median TPOT in ms."""
    tpot = _number(facts, "tpot_median_ms")
    return _ratio(pd.Series(1000.0, facts.index), tpot)
