"""The words that we look for in logs against what the installed vLLM writes.

Its log texts are read out of its sources, so nothing of it is imported and no engine is started.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from analysis.startup_log import MARKS
from analysis.stats_lines import FIELDS, PREEMPTIONS
from jobs.engines.vllm_logs import MARKS as DRIVER_MARKS
from jobs.engines.vllm_logs import PHASES
from tests.engine import ENGINE_ENV, needs_engine

pytestmark = [pytest.mark.engine, needs_engine]

FILES = (
    "compilation/backends.py", "compilation/decorators.py", "compilation/monitor.py",
    "config/model.py", "entrypoints/cli/serve.py", "entrypoints/launchers/api_server/entry.py",
    "entrypoints/serve/utils/api_utils.py", "model_executor/model_loader/base_loader.py",
    "model_executor/model_loader/default_loader.py", "model_executor/model_loader/weight_utils.py",
    "v1/core/kv_cache_utils.py", "v1/engine/core.py", "v1/metrics/loggers.py",
    "v1/worker/cpu_model_runner.py", "v1/worker/cpu_worker.py", "v1/worker/gpu_model_runner.py",
    "v1/worker/gpu_worker.py", "v1/worker/gpu/cudagraph_utils.py", "v1/worker/gpu/model_runner.py",
    "v1/worker/mm_encoder_model_runner.py",
    "distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py",
)  # fmt: skip
OTHER_RELEASES = {
    r"Capturing CUDA graphs \(imitated\)": "the rehearsal engine's",
    "Application startup complete": "uvicorn's",
}
"""Words that vLLM itself does not write, and whose they are."""
FILLED = {"%s": "x", "%d": "7", "%.0f": "7", "%.1f": "7.5", "%.2f": "7.25", "%.3f": "7.125"}


def texts() -> Iterator[str]:
    """Every text that these files may write, as a log would have it."""
    root = next((ENGINE_ENV / "lib").glob("python3*/site-packages/vllm"))
    for name in FILES:
        tree = ast.parse((root / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield filled(node.value)
                if node.value.endswith("shards"):
                    yield f"{node.value}:   0% Completed"
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "7"
                    for part in node.values
                )


def filled(text: str) -> str:
    """A format string with something in its places."""
    return re.sub(
        r"%[-+ 0]*\d*(\.\d+)?[sdif]",
        lambda found: FILLED.get(found[0], "7.5"),
        text,
    )


@pytest.fixture(scope="module")
def told() -> list[str]:
    """All of them, prefixed with the stamp that the log puts before them."""
    return [f"INFO 11-30 10:00:00 [x.py:1] {text}" for text in texts()]


def alternatives(pattern: str) -> list[str]:
    """The words of a pattern that stand apart at its top level."""
    parts, depth, word, escaped = [], 0, "", False
    for sign in pattern:
        if sign == "|" and depth == 0 and not escaped:
            parts.append(word)
            word = ""
            continue
        if not escaped:
            depth += (sign == "(") - (sign == ")")
        escaped = sign == "\\" and not escaped
        word += sign
    return [*parts, word]


def unknown(pattern: str, told: list[str]) -> list[str]:
    """The alternatives that no text of the release has, and that no other release explains."""
    return [
        word
        for word in alternatives(pattern)
        if word not in OTHER_RELEASES and not any(re.search(word, text) for text in told)
    ]


def test_every_word_of_a_start_up_is_one_that_vllm_writes(told: list[str]) -> None:
    assert [words for mark in MARKS for words in unknown(mark.words.pattern, told)] == []


def test_every_word_that_the_driver_waits_for_is_one_that_vllm_writes(told: list[str]) -> None:
    assert [phase for phase, _ in DRIVER_MARKS] == [*reversed(PHASES[1:])]
    assert [words for _, mark in DRIVER_MARKS for words in unknown(mark.pattern, told)] == []


def test_every_field_of_a_statistics_line_is_one_that_vllm_writes(told: list[str]) -> None:
    patterns = [*FIELDS.values(), PREEMPTIONS]
    # "KV fetch: .*? in progress" is put together of two texts there: its end alone is looked for.
    words = [pattern.pattern.split(".*?")[-1] for pattern in patterns]
    assert [word for word in words if unknown(word, told)] == []


def test_a_word_that_vllm_does_not_write_would_be_found(told: list[str]) -> None:
    assert unknown("Model loading took|Model loading lasted", told) == ["Model loading lasted"]
