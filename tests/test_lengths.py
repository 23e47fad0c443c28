"""Two meanings of random_range_ratio, by their sources' arithmetic."""

from __future__ import annotations

import pytest

from launcher.errors import LauncherError
from launcher.lengths import length_range


@pytest.mark.parametrize(
    ("definition", "ratio", "expected"),
    [
        ("vllm", 0.2, (6553, 9831)),
        ("vllm", 0.0, (8192, 8192)),
        ("inferencemax", 0.8, (6553, 8192)),
        ("inferencemax", 0.0, (1, 8192)),
        ("inferencemax", 1.0, (8192, 8192)),
    ],
)
def test_ranges_of_8192(definition: str, ratio: float, expected: tuple[int, int]) -> None:
    assert length_range(definition, ratio, 8192) == expected


@pytest.mark.parametrize(
    ("definition", "ratio"),
    [("vllm", 1.0), ("vllm", -0.1), ("inferencemax", 1.1), ("sglang", 0.5)],
)
def test_ratios_without_a_meaning_are_refused(definition: str, ratio: float) -> None:
    with pytest.raises(LauncherError, match="allowed"):
        length_range(definition, ratio, 8192)
