"""What the times of single requests say of a point's span."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.records import Window
from jobs.window import from_arrays, read_window, window_facts

COLD = [8.0 + 0.06 * n for n in range(16)]
WARM = [0.18 + 0.001 * (n % 20) for n in range(144)]
STARTS = [100.0] * 16 + [109.0 + n // 16 for n in range(144)]


def test_the_first_wave_is_told_apart_from_the_rest_in_any_order() -> None:
    pairs = list(zip(STARTS, COLD + WARM, strict=True))
    for starts, ttfts in (zip(*pairs, strict=True), zip(*reversed(pairs), strict=True)):
        facts = window_facts(starts, ttfts, [], 16)
        assert facts["first_wave_ttft_ms"] == pytest.approx(8450.0)
        assert facts["later_ttft_ms"] == pytest.approx(189.2778, abs=1e-4)


def test_most_requests_in_flight_are_counted_at_one_moment() -> None:
    facts = window_facts([0.0, 0.0, 1.0, 2.0], [0.1] * 4, [1.0, 3.0, 0.5, 0.5], 4)
    assert facts["peak_concurrency"] == 2


def test_halves_leave_out_the_edge_waves_and_need_enough_requests() -> None:
    starts = [float(n) for n in range(50)]
    e2els = [9.0] * 5 + [1.0] * 20 + [2.0] * 20 + [0.1] * 5
    facts = window_facts(starts, e2els, e2els, 5)
    assert (facts["first_half_e2el_ms"], facts["second_half_e2el_ms"]) == (1000.0, 2000.0)
    assert "first_half_e2el_ms" not in window_facts(starts, e2els, e2els, 10)


def test_arrays_of_the_client_give_the_same_and_leave_failed_requests_out() -> None:
    arrays = {
        "start_times": [0.0, 0.0, 1.0], "ttfts": [0.2, 0.0, 0.1], "errors": ["", "boom", ""],
        "itls": [[0.3, 0.3], [], [0.1]], "output_lens": [3, 0, 2], "asked_output_lens": [3, 3, 3],
        "queue_times": [0.0, 0.4, 0.8],
    }  # fmt: skip
    facts = from_arrays(arrays, 1)
    assert facts["short_outputs"] == 1
    assert facts["queue_mean_ms"] == pytest.approx(400.0)
    assert facts["later_ttft_ms"] == pytest.approx(100.0)
    assert facts["peak_concurrency"] == 1
    assert "other_prompts" not in facts
    told = from_arrays({**arrays, "input_lens": [9, 9, 7], "asked_input_lens": [9, 5, 9]}, 1)
    assert (told["other_prompts"], told["other_prompt_tokens"]) == (1, 2)


@pytest.mark.parametrize(
    "arrays",
    [{}, {"ttfts": [0.1], "start_times": []}, {"ttfts": ["a"], "start_times": [0.0]},
     {"ttfts": [float("nan")], "start_times": [0.0]}, {"ttfts": {"a": 1}}, {"itls": 3}],
)  # fmt: skip
def test_arrays_that_fit_nothing_give_no_figures(arrays: dict[str, object]) -> None:
    assert [v for v in from_arrays(arrays, 4).values() if v is not None] == []


def test_a_result_says_its_window_itself_or_has_arrays_beside_it(tmp_path: Path) -> None:
    beside = tmp_path / "r.requests.json"
    beside.write_text(json.dumps({"start_times": STARTS, "ttfts": COLD + WARM}))
    assert read_window({"max_concurrent_requests": 9}, 16, beside).peak_concurrency == 9
    assert read_window({}, 16, beside).first_wave_ttft_ms == pytest.approx(8450.0)
    told = {"window": {"first_wave_ttft_ms": 7.0}}
    assert read_window(told, 16, beside) == Window(first_wave_ttft_ms=7.0)
    beside.write_bytes(b"\xff{")
    assert read_window({"window": {"peak_concurrency": "x"}}, 16, beside) == Window()
    assert read_window({}, 16, beside) == Window()
