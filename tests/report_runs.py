"""Run directories for the report: the five published shapes with figures near the article's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from analysis.reference import ReferencePoint, load_reference
from jobs.records import BenchPoint, Latency
from jobs.series_files import SeriesFiles
from jobs.store import RunDir, append_event, write_json
from tests.analysis_runs import outcome, plan, point, repeat, run_json, write_run

POINT_BEGINS = 1_785_578_400.0
"""2026-08-01T10:00:00Z, when the point of tests/analysis_runs.py begins."""
MODEL = "Qwen3.5-397B-A17B-NVFP4"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=hacked=1>\u202e'\"&`${1}"


def labels(topology: str, **changes: str) -> dict[str, str]:
    """What run.json calls its options."""
    known = {"topology": topology, "model": "qwen", "engine": "vllm", "flags": "article"}
    return known | changes


def measured(run_id: str, index: int, near: ReferencePoint, **changes: Any) -> BenchPoint:
    """A point like the article's at 0.95 of its throughput, its latencies as Little's law wants."""
    prompts = near.concurrency * 8
    span = prompts * (7373 + 922) / (near.total_tps_per_gpu * 0.95 * near.serving_gpus)
    tpot, whole = 1000 / near.generation_tps_per_user, 960 * near.concurrency * span / prompts
    ttft = max(80.0, whole - 921 * tpot)
    begun = datetime(2026, 11, 29, 15, 30, tzinfo=UTC)
    base = point(run_id).server
    base.decode_external_tokens, base.prefill_prompt_tokens = prompts * 7372.0, prompts * 7373.0
    known: dict[str, Any] = {
        "index": index,
        "name": f"c{near.concurrency}",
        "concurrency": near.concurrency,
        "num_prompts": prompts,
        "completed": prompts,
        "total_input_tokens": prompts * 7373,
        "total_output_tokens": prompts * 922,
        "started_at": begun.isoformat(),
        "ended_at": (begun + timedelta(seconds=span + 1)).isoformat(),
        "duration_s": span,
        "ttft_ms": Latency(mean=ttft, median=ttft, p90=2 * ttft, p99=4 * ttft),
        "tpot_ms": Latency(mean=tpot, median=tpot, p90=1.1 * tpot, p99=1.3 * tpot),
        "e2el_ms": Latency(mean=whole, median=whole, p90=1.3 * whole, p99=1.6 * whole),
        "server": base,
    }
    return point(run_id, **(known | changes))


def shape_run(root: Path, shape: ReferencePoint, failed_at: int = 0, **description: Any) -> Path:
    """A run of one published shape; requests fail at one concurrency."""
    run_id = f"20261129-153000-{shape.topology}-a1b2c{shape.prefill_endpoints}"
    about = run_json(
        run_id,
        labels=labels(shape.topology),
        plan=plan(2 * shape.prefill_endpoints, 8, shape.allocated_gpus, served_model=MODEL),
        **description,
    )
    near = [one for one in load_reference().points if one.topology == shape.topology]
    points = [measured(run_id, index, one) for index, one in enumerate(near)]
    for record in points:
        if record.concurrency == failed_at:
            record.failed, record.completed = 3, record.num_prompts - 3
            record.errors = {"TimeoutError": 3}
    repeats = [repeat(number, run_id) for number in range(5)]
    return write_run(root / run_id, about, points, repeats, outcome(run_id))


def five_shapes(root: Path) -> Path:
    """All five, 39 points; the 4x2 run has an INVALID row at 5120."""
    for shape in load_reference().shapes():
        shape_run(root, shape, failed_at=5120 if shape.prefill_endpoints == 4 else 0)
    return root


def rehearsal_run(root: Path, run_id: str = "run-r") -> Path:
    """A run of stand-in servers with one point."""
    engine = {"name": "rehearsal", "release": "0.33.0", "rehearsal": True}
    record = point(run_id, rehearsal=True, engine="rehearsal")
    about = run_json(run_id, engine=engine)
    return write_run(root / run_id, about, [record], [], outcome(run_id))


def hostile_run(root: Path) -> Path:
    """A run whose every chosen name tries to become markup, script or an object's insides."""
    names = labels(HOSTILE, flags="__proto__", model="constructor", workload=HOSTILE)
    errors = {HOSTILE: 2}
    about = run_json(
        HOSTILE,
        labels=names,
        plan=plan(served_model=HOSTILE),
        provenance={"overrides": [HOSTILE], "git_sha": HOSTILE, "packages": {HOSTILE: HOSTILE}},
    )
    records = [
        point(HOSTILE, client=HOSTILE),
        point(HOSTILE, index=1, concurrency=128, failed=2, completed=510, errors=errors),
    ]
    return write_run(root / "hostile", about, records, [], outcome(HOSTILE, "failed", HOSTILE))


def add_start_up(folder: Path) -> None:
    """events.jsonl of two workers: decode0 is ready 9 s after the first start, prefill0 after 5."""
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    about["plan"]["workers"] = [
        {"name": name, "role": name[:-1], "argv": ["vllm"], "log": f"logs/{name}.log"}
        for name in ("prefill0", "decode0")
    ]
    write_json(folder / "run.json", about)
    told: tuple[tuple[int, str, str, dict[str, str]], ...] = (
        (0, "prefill0", "started", {"node": "n1"}),
        (0, "decode0", "started", {"node": "n2"}),
        (2, "prefill0", "start_up", {"start_up": "import"}),
        (2, "decode0", "start_up", {"start_up": "import"}),
        (3, "prefill0", "start_up", {"start_up": "weights"}),
        (3, "decode0", "start_up", {"start_up": "weights"}),
        (4, "prefill0", "start_up", {"start_up": "kv"}),
        (4, "decode0", "start_up", {"start_up": "kv"}),
        (5, "prefill0", "ready", {}),
        (9, "decode0", "ready", {}),
    )
    for second, step, event, more in told:
        t = f"2026-08-01T09:59:{second:02d}.000+00:00"
        append_event(folder / "events.jsonl", {"t": t, "step": step, "event": event, **more})


def add_series(folder: Path) -> None:
    """A look a second for 100 s at two decode ranks: 3 and 5 running, KV 20 % and 60 % full."""
    files = SeriesFiles(RunDir(folder).series)
    files.begin()
    files.head("decode0", "decode", ["t", "rank", "running", "kv_usage"])
    for second in range(100):
        files.row("decode0", [POINT_BEGINS + second, 0, 3, 0.2])
        files.row("decode0", [POINT_BEGINS + second, 1, 5, 0.6])
    files.close()
