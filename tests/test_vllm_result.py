"""What is kept of the result of `vllm bench serve`."""

from __future__ import annotations

import math

import pytest

from jobs.clients.vllm_result import count_errors, split_result


def test_errors_are_counted_by_the_last_line_of_what_vllm_kept() -> None:
    errors = ["", "Traceback:\n  File x\nTimeoutError: late\n", "Unauthorized", "Unauthorized", ""]
    assert count_errors(errors, 4) == {
        "Unauthorized": 2,
        "TimeoutError: late": 1,
        "no reason given": 1,
    }


def test_the_result_keeps_no_arrays_and_no_number_json_cannot_say() -> None:
    result = {"failed": 0, "errors": [""], "itls": [[0.1]], "ttfts": [0.2], "duration": math.nan}
    kept, arrays = split_result(result)
    assert kept == {"failed": 0, "duration": None, "error_counts": {}}
    assert arrays == {"ttfts": [0.2], "errors": [""], "latencies": [pytest.approx(0.3)]}
