"""vLLM's benchmark module: known by its shape, or refused with what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.clients.vllm_module import unknown_shape
from tests.toy_tokenizers import ToyTokenizer


class FakeRequest:
    def __init__(self, prompt: str, prompt_len: int, expected_output_len: int) -> None: ...


def get_samples() -> None: ...


async def benchmark(
    input_requests: object,
    disable_tqdm: object,
    request_rate: object,
    burstiness: object,
    num_warmups: object,
    ready_check_timeout_sec: object,
) -> None: ...


async def main_async() -> None:
    get_samples()
    await benchmark(1, 2, 3, 4, 5, 6)


def serve_names(**changes: object) -> dict[str, Any]:
    """The names of a benchmark module that has all that is needed."""
    names: dict[str, Any] = {"main": main_async, "main_async": main_async}
    names.update(
        add_cli_args=get_samples,
        get_samples=get_samples,
        benchmark=benchmark,
        SampleRequest=FakeRequest,
    )
    return {**names, **changes}


def test_a_benchmark_module_of_the_known_shape_is_accepted() -> None:
    assert unknown_shape(serve_names()) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"get_samples": None}, "no get_samples"),
        ({"main_async": benchmark}, "main_async does not call get_samples"),
        ({"benchmark": get_samples}, "benchmark takes no input_requests"),
        ({"SampleRequest": ToyTokenizer}, "SampleRequest takes no prompt"),
    ],
)
def test_a_changed_benchmark_module_is_named_for_what_is_missing(
    change: dict[str, object], problem: str
) -> None:
    assert unknown_shape(serve_names(**change)).startswith(problem)
