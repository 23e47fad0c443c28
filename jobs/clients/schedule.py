"""When requests are due in an open loop: the arrival times of `vllm bench serve`, or a trace's."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def arrivals(count: int, rate: float, burstiness: float, seed: int) -> npt.NDArray[np.float64]:
    """Seconds from the start at which `count` requests are due, `rate` a second.

    Gaps are drawn from a gamma distribution of shape `burstiness` and mean 1/rate (1: a Poisson
    process; below: burstier; inf: even), then stretched so that the last is due at count / rate,
    as vllm/benchmarks/serve.py: get_request does (0.32), so that the offered rate is exact.
    """
    if not (rate > 0 and burstiness > 0):
        raise ValueError(f"request rate {rate:g} and burstiness {burstiness:g} must be above 0")
    if math.isinf(burstiness):
        return np.arange(1, count + 1) / rate
    gaps = np.random.default_rng(seed).gamma(burstiness, 1.0 / (rate * burstiness), count)
    due = np.cumsum(gaps)
    return due * (count / rate / due[-1]) if count else due
