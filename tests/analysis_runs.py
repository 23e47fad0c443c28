"""Small run directories for the analysis tests, written the way jobs writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.records import AccuracyRepeat, BenchPoint, Latency, Outcome, ServerCounters, to_json
from jobs.store import RunDir, write_json

LENGTHS: dict[str, Any] = {
    "isl": 8192,
    "osl": 1024,
    "range_definition": "inferencemax",
    "range_ratio": 0.8,
    "input_range": [6553, 8192],
    "output_range": [819, 1024],
}
GSM8K: dict[str, Any] = {
    "dataset": "gsm8k",
    "comparable": True,
    "repeats": 5,
    "reference": 0.88,
    "tolerance": 0.03,
}
WORD_PROBLEMS = GSM8K | {"dataset": "word_problems", "comparable": False, "repeats": 2}


def plan(prefill: int = 8, decode: int = 8, allocated: int = 16, **changes: Any) -> dict[str, Any]:
    """A disaggregated plan of that many GPUs, or an aggregated one when `prefill` is 0."""
    roles = {"prefill": prefill, "decode": decode} if prefill else {"aggregated": decode}
    workers = [{"role": role, "argv": ["vllm", "serve", "m"]} for role in roles]
    return {
        "serving_gpus": prefill + decode,
        "allocated_gpus": allocated,
        "role_gpus": roles,
        "served_model": "m",
        "uses_nixl": bool(prefill),
        "workers": workers,
        "points": [],
        "accuracy": GSM8K,
    } | changes


def run_json(run_id: str = "run-1", **changes: Any) -> dict[str, Any]:
    """run.json's object; `changes` replace top-level keys."""
    return {
        "schema": 1,
        "run_id": run_id,
        "name": run_id,
        "labels": {"topology": "dep8_prefill4x2", "model": "qwen", "engine": "vllm"},
        "engine": {"name": "vllm", "release": "0.33.0", "rehearsal": False},
        "plan": plan(),
    } | changes


def point(run_id: str = "run-1", **changes: Any) -> BenchPoint:
    """A faultless point: 8 requests a stream, mean lengths of the range, 100 s, KV transferred."""
    prompts = changes.get("num_prompts", 8 * changes.get("concurrency", 64))
    record = BenchPoint(
        run_id=run_id, index=0, name="c64", engine="vllm", rehearsal=False, client="native",
        concurrency=64, num_prompts=prompts, **LENGTHS, seed=0,
        started_at="2026-08-01T10:00:00Z", ended_at="2026-08-01T10:01:40Z", duration_s=100.0,
        completed=prompts, failed=0, total_input_tokens=prompts * 7373,
        total_output_tokens=prompts * 922,
        ttft_ms=Latency(mean=210.0, median=180.0, p90=400.0, p99=900.0),
        tpot_ms=Latency(mean=12.6, median=12.5, p90=15.0, p99=19.0),
        itl_ms=Latency(mean=12.4, median=12.0, p90=16.0, p99=25.0),
        e2el_ms=Latency(mean=11700.0, median=11600.0, p90=13000.0, p99=15000.0),
        server=ServerCounters(
            decode_external_tokens=prompts * 7372.0, prefill_prompt_tokens=prompts * 7373.0,
            kv_bytes=1.5e12, kv_failed=0.0, kv_expired=0.0, preemptions=0.0,
        ),
    )  # fmt: skip
    return replace(record, **changes)


def repeat(number: int = 0, run_id: str = "run-1", **changes: Any) -> AccuracyRepeat:
    """One pass over 1,319 questions with 1,161 right."""
    record = AccuracyRepeat(
        run_id=run_id, repeat=number, dataset="gsm8k", comparable=True, rehearsal=False,
        questions=1319, answered=1319, correct=1161, invalid=3, cut=0, transport_failures=0,
        accuracy=None, strict_accuracy=None, duration_s=60.0, output_tokens=150000,
    )  # fmt: skip
    record = replace(record, **changes)
    score = record.correct / record.answered if record.answered else None
    return record if "accuracy" in changes else replace(record, accuracy=score)


def outcome(run_id: str = "run-1", status: str = "completed", cause: str = "") -> Outcome:
    """How the run ended."""
    return Outcome(
        run_id=run_id, status=status, phase="sweep", cause=cause, started_at="a", ended_at="b",
        points_written=1, points_planned=1,
    )  # fmt: skip


def write_run(
    folder: Path,
    description: dict[str, Any] | None = None,
    points: list[BenchPoint] | None = None,
    repeats: list[AccuracyRepeat] | None = None,
    end: Outcome | None = None,
) -> Path:
    """A run directory at `folder`; by default a completed run with one point and five repeats."""
    store = RunDir(folder)
    store.make_folders()
    description = run_json() if description is None else description
    run_id = description["run_id"]
    write_json(store.run_json, description)
    write_json(store.canary, {"verdict": "passed", "form": "exact"})
    for record in [point(run_id)] if points is None else points:
        write_json(store.point(record.index, record.concurrency), to_json(record))
    for passed in [repeat(n, run_id) for n in range(5)] if repeats is None else repeats:
        write_json(store.repeat(passed.repeat), to_json(passed))
    if end is not None:
        write_json(store.outcome, to_json(end))
    return folder


def completed_run(folder: Path, run_id: str = "run-1", **changes: Any) -> Path:
    """A whole, valid run; `changes` go to its one point."""
    return write_run(folder, run_json(run_id), [point(run_id, **changes)], end=outcome(run_id))
