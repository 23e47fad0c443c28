"""Results of other tools, told by their keys: `vllm bench serve` and its forks (sa-bench, the
native client) as runs of their own; InferenceX, srt-slurm's roll-up, AIPerf and vLLM's GSM8K
summary as rows. What a tool does not tell stays missing.

Keys: vllm/benchmarks/serve.py (0.6 to 0.33; older releases had total_input, percentile lists and no
failed), srt-slurm sa-bench/rollup.py, InferenceX utils/process_result.py (latencies in seconds),
AIPerf profile_export_aiperf.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError, BrokenFileError
from analysis.foreign_answers import is_answer, row_of_answers
from analysis.foreign_names import Named, named_by
from analysis.foreign_points import has_totals, point_of, run_of
from analysis.foreign_rows import Row, row_of
from analysis.foreign_told import read_told
from analysis.run import Run

LARGEST = 64 * 2**20
KINDS = (
    "vllm bench serve or sa-bench (duration, completed, total_input_tokens ...), InferenceX"
    " (tput_per_gpu, conc), srt-slurm benchmark-rollup.json, AIPerf profile_export_aiperf.json,"
    " vLLM's gsm8k_eval (accuracy, invalid_rate), lm-eval (results: gsm8k), one line a question"
    " (label, text)"
)


@dataclass
class Foreign:
    """What one file holds."""

    run: Run | None = None
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_foreign(path: Path) -> Foreign:
    """AnalysisError for a file that is no result of a tool that is known here."""
    found, named = Foreign(), named_by(path)
    objects, answers, told = list(_objects(path)), [], read_told(path)
    for place, data in enumerate(objects):
        where = path.name if len(objects) == 1 else f"{path.name}#{place + 1}"
        if isinstance(data, dict) and is_answer(data):
            answers.append(data)
            continue
        try:
            _take(found, data | told if isinstance(data, dict) else data, where, path, named)
        except BrokenFileError as error:
            found.warnings.append(f"{path}: {error}")
    if answers:
        found.rows.append(row_of_answers(answers, path))
    if found.run is None and not found.rows:
        why = f" ({found.warnings[0]})" if found.warnings else ""
        raise AnalysisError(f"{path}: no result of a tool known here: {KINDS}{why}")
    return found


def _take(found: Foreign, data: Any, where: str, path: Path, named: Named) -> None:
    """One object of the file."""
    if isinstance(data, BrokenFileError):
        raise data
    if not isinstance(data, dict):
        raise BrokenFileError(f"{where}: expected a JSON object, found {type(data).__name__}")
    if "completed" in data and "duration" in data and has_totals(data):
        if found.run is None:
            found.run = run_of(path, data, named)
        found.run.points.append(point_of(data, len(found.run.points), found.run, named))
        return
    if isinstance(data.get("runs"), list) and "benchmark_type" in data:
        for each in data["runs"]:
            found.rows.append(row_of(data | {"run": each}, where, path))
        return
    found.rows.append(row_of(data, where, path))


def _objects(path: Path) -> Iterator[Any]:
    """One or many JSON values of a file: an array, lines, or values one after the other.

    What is torn behind a whole value (a file that is being written) is an error among them; the
    next line is tried.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise AnalysisError(f"{path}: {path.stat().st_size} bytes, at most {LARGEST} are read")
        text = path.read_bytes().decode("utf-8-sig").strip()
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path}: is no UTF-8 text: {error.reason}") from error
    # NaN is what Python writes for a mean of nothing: a missing value.
    decoder = json.JSONDecoder(parse_constant=lambda _: None, object_pairs_hook=_object)
    place, whole = 0, 0
    while place < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except BrokenFileError as error:
            raise AnalysisError(f"{path}: {error}") from error
        except (ValueError, RecursionError) as error:
            if not whole:
                raise AnalysisError(f"{path}: is no JSON: {error}") from error
            yield BrokenFileError(f"is no JSON from there on: {error}")
            place = text.find("\n", place) + 1 or len(text)
            continue
        whole += 1
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        yield from value if isinstance(value, list) else [value]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one that gives two values to a key says nothing of either."""
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data and data[key] != value:
            raise BrokenFileError(f"key {key!r:.60} stands there twice, with different values")
        data[key] = value
    return data
