"""Token lengths of random requests: one flag name, two meanings in the field."""

from __future__ import annotations

import math

from launcher.errors import LauncherError

DEFINITIONS = ("inferencemax", "vllm")


def length_range(definition: str, ratio: float, length: int) -> tuple[int, int]:
    """Inclusive [low, high] tokens from which a request's length is drawn uniformly.

    inferencemax: {int(length * ratio) .. length}, ratio in [0, 1], 1 = fixed (sa-bench
    benchmark_serving.py of srt-slurm v1.0.32; InferenceX bench_serving).
    vllm: {floor(length * (1 - ratio)) .. ceil(length * (1 + ratio))}, ratio in [0, 1), 0 = fixed
    (vLLM 0.33.0 benchmarks/datasets/utils.py). Never below 1 token.
    """
    if length < 1:
        raise LauncherError(f"workload: length {length} tokens; allowed: 1 or more")
    if definition == "inferencemax":
        if not 0 <= ratio <= 1:
            raise LauncherError(
                f"workload.range_ratio={ratio}: allowed with range_definition=inferencemax: 0 to 1 "
                "(1 = fixed length)"
            )
        return max(1, int(length * ratio)), length
    if definition == "vllm":
        if not 0 <= ratio < 1:
            raise LauncherError(
                f"workload.range_ratio={ratio}: allowed with range_definition=vllm: 0 up to, but "
                "not including, 1 (0 = fixed length); for sa-bench's meaning use "
                "range_definition=inferencemax"
            )
        return max(1, math.floor(length * (1 - ratio))), math.ceil(length * (1 + ratio))
    raise LauncherError(
        f"workload.range_definition={definition!r}: allowed: {', '.join(DEFINITIONS)}"
    )
