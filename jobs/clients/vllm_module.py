"""vLLM's benchmark module, taken only where it has the shape that is known here."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Mapping
from typing import Any

SERVE_MODULE = "vllm.benchmarks.serve"
USED_PARAMETERS = {
    "benchmark": (
        "input_requests",
        "request_rate",
        "burstiness",
        "disable_tqdm",
        "num_warmups",
        "ready_check_timeout_sec",
    ),
    "SampleRequest": ("prompt", "prompt_len", "expected_output_len"),
}
KNOWN = (
    "this client knows the benchmark of vLLM 0.32: choose client native, or adapt "
    "jobs/clients/vllm_module.py"
)


class BenchError(RuntimeError):
    """The benchmark cannot run; the text is the whole message."""


def load_serve() -> tuple[str, Any]:
    """vLLM's version and its benchmark module, checked for every name that is used or replaced."""
    try:
        version = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError as error:
        raise BenchError(
            f"{sys.executable} has no vLLM: run this with the engine's Python"
        ) from error
    try:
        serve = importlib.import_module(SERVE_MODULE)
        importlib.import_module("vllm.utils.argparse_utils")
    except ImportError as error:
        raise BenchError(f"vLLM {version}: {SERVE_MODULE} cannot be imported: {error}") from error
    problem = unknown_shape(vars(serve))
    if problem:
        raise BenchError(f"vLLM {version}: {SERVE_MODULE}: {problem}; {KNOWN}")
    return version, serve


def unknown_shape(names: Mapping[str, Any]) -> str:
    """What is not as expected among the names of vLLM's benchmark module; empty when all is."""
    for name in ("main", "main_async", "add_cli_args", "get_samples", "benchmark", "SampleRequest"):
        if not callable(names.get(name)):
            return f"no {name}"
    used = getattr(names["main_async"], "__code__", None)
    for name in ("get_samples", "benchmark"):
        if used is None or name not in used.co_names:
            return f"main_async does not call {name}"
    for name, parameters in USED_PARAMETERS.items():
        known = inspect.signature(names[name]).parameters
        missing = [p for p in parameters if p not in known]
        if missing:
            return f"{name} takes no {', '.join(missing)}"
    return ""
