"""1,000 run directories of 9 points to one frame: seconds and memory, against named peers.

    python benchmarks/frame_load.py [runs]
    python benchmarks/frame_load.py --broken       # what is said of one broken run of every kind

The directories are written through the launcher's and the job's own writers (real plans of the
five published topologies, points, repeats, outcome, canary, events and the client's raw result).
Each reader runs in a process of its own, files in the page cache, three times; the one with the
least CPU seconds (user and system) is told, with its wall seconds: on a machine that others use the
wall says little, and CPU seconds grow as well. Hence the load averages. CPU seconds are those of
all processes that a reader starts, memory is that of the one that has the frame.
Peers: json.load of every file and pandas.json_normalize over the points, without any check, as
people do by hand; and pandas.read_json of each client result, the way of srt-slurm's and
InferenceX's result scripts, over every tenth run, once: it takes long.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from hydra import compose, initialize_config_dir

from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from analysis.safetext import printable
from jobs.records import (
    AccuracyRepeat,
    BenchPoint,
    Latency,
    Outcome,
    ServerCounters,
    Station,
    Stations,
    Window,
    to_json,
)
from jobs.store import RunDir, write_json
from launcher.composing import CONF_DIR, typed
from launcher.placement import place
from launcher.plan import build_plan
from launcher.render import plan_document
from launcher.schema import register
from launcher.steps import Surroundings
from launcher.submit import run_document
from tests.analysis_runs import completed_run
from tests.test_broken_runs import KINDS

TOPOLOGIES = tuple(f"dep8_prefill{n}x2" for n in (4, 5, 6, 7, 8))
AROUND = Surroundings(python="/opt/launcher/bin/python", code_dir="/opt/launcher", env={})
ROUNDS = {"analysis": 3, "json.loads + json_normalize": 3}


def main() -> int:
    """Makes the directories, reads them with every reader, prints one line each."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--read" in sys.argv:
        return read_once(words[0], Path(words[1]))
    if "--broken" in sys.argv:
        return tell_broken()
    count = int(words[0]) if words else 1000
    with tempfile.TemporaryDirectory(prefix="frame-load-") as folder:
        home = Path(folder)
        begun = time.perf_counter()
        size = make(home, count)
        sys.stdout.write(
            f"{count} run directories, {count * 9} points, {size / 1e6:.0f} MB of records,"
            f" written in {time.perf_counter() - begun:.1f} s\n"
        )
        for name in READERS:
            say(name, best_of(name, home, ROUNDS.get(name, 1)))
    return 0


def say(name: str, told: dict[str, Any]) -> None:
    """One reader's line; a peer's has its share of our CPU seconds."""
    sys.stdout.write(
        f"{name:28} {told['cpu_s']:6.2f} CPU s  {told['seconds']:6.2f} s wall"
        f"  {told['rss_mb']:5.0f} MB (+{told['grown_mb']:.0f} MB while reading)"
        f"  {told['rows']} rows, {told['columns']} columns  load {os.getloadavg()[0]:.0f}\n"
    )
    sys.stdout.flush()


def best_of(name: str, home: Path, rounds: int) -> dict[str, Any]:
    """The read that took the least CPU, each in a fresh process; the largest memory of them."""
    told = []
    for _ in range(rounds):
        command = [sys.executable, __file__, "--read", name, str(home)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told.append(json.loads(done.stdout))
    best: dict[str, Any] = min(told, key=lambda one: float(one["cpu_s"]))
    return best | {"rss_mb": max(one["rss_mb"] for one in told)}


def read_once(name: str, home: Path) -> int:
    """One read in this process; prints what it took as JSON. Imports are done before."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begun, cpu = time.perf_counter(), sum(os.times()[:4])
    frame = READERS[name](home)
    seconds, cpu_s = time.perf_counter() - begun, sum(os.times()[:4]) - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"seconds": seconds, "cpu_s": cpu_s, "rss_mb": after, "grown_mb": after - before}
    sys.stdout.write(json.dumps(told | {"rows": len(frame), "columns": frame.shape[1]}))
    return 0


def tell_broken() -> int:
    """One warning a kind, as the table says it; the good run beside them stays."""
    with tempfile.TemporaryDirectory(prefix="broken-runs-") as folder:
        home = Path(folder)
        completed_run(home / "good", "good")
        for kind, (breaks, _) in KINDS.items():
            breaks(completed_run(home / kind, kind))
        loaded = load([home])
        for warning in loaded.warnings:
            sys.stdout.write(f"{printable(warning).replace(f'{home}/', '')}\n")
        rows = compute_all(tidy(loaded))
    sys.stdout.write(
        f"{len(KINDS)} broken runs, {len(loaded.warnings)} warnings;"
        f" the good run's row: {rows.set_index('run').loc['good', 'verdict']}\n"
    )
    return 0


def by_analysis(home: Path) -> pd.DataFrame:
    """Ours: checked, judged, every column."""
    return compute_all(tidy(load([home])))


def by_json(home: Path) -> pd.DataFrame:
    """By hand: every record parsed, points normalized, nothing checked."""
    rows = []
    for folder in sorted(home.iterdir()):
        run = json.loads((folder / "run.json").read_text())
        shared = {"run": run["run_id"], "gpus": run["plan"]["serving_gpus"], **run["labels"]}
        for path in sorted((folder / "accuracy").glob("*.json")):
            json.loads(path.read_text())
        json.loads((folder / "outcome.json").read_text())
        json.loads((folder / "canary.json").read_text())
        for path in sorted((folder / "points").glob("*.json")):
            rows.append(shared | json.loads(path.read_text()))
    return pd.json_normalize(rows)


def by_read_json(home: Path) -> pd.DataFrame:
    """As result scripts do: pandas.read_json of each client result; of every tenth run."""
    files = sorted(home.glob("*0/points/raw/*.json"))
    return pd.concat([pd.read_json(path, typ="series").to_frame().T for path in files])


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "analysis": by_analysis,
    "json.loads + json_normalize": by_json,
    "read_json, a tenth": by_read_json,
}


def make(home: Path, count: int) -> int:
    """Run directories under `home`; the bytes of all files.

    One run of each topology goes through the writers, which flush every file to the disk; the
    others are the same files under another run's id.
    """
    first = [home / f"run-{number:04d}" for number in range(len(TOPOLOGIES))]
    for number, (folder, topology) in enumerate(zip(first, TOPOLOGIES, strict=True)):
        write(folder, description(topology), number)
    for number in range(len(first), count):
        original = first[number % len(first)]
        copy(original, home / f"run-{number:04d}")
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def copy(original: Path, folder: Path) -> None:
    """A run directory under another run's id."""
    for path in sorted(original.rglob("*")):
        target = folder / path.relative_to(original)
        if path.is_dir():
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text().replace(original.name, folder.name))


def description(topology: str) -> dict[str, Any]:
    """run.json of one published topology, with all nine points."""
    register()
    words = [f"topology={topology}"]
    with initialize_config_dir(str(CONF_DIR), version_base=None):
        plan = build_plan(typed(compose("config", overrides=words)))
    labels = {"topology": topology, "model": "qwen3_5_397b_a17b_nvfp4", "workload": "random_8k1k"}
    document = plan_document(plan, place(plan), AROUND)
    return run_document(plan, document, "", labels, {"git_sha": "0" * 40})


def write(folder: Path, described: dict[str, Any], number: int) -> None:
    """One whole run."""
    store, run_id = RunDir(folder), folder.name
    store.make_folders()
    write_json(store.run_json, described | {"run_id": run_id})
    write_json(store.canary, {"verdict": "passed", "form": "band"})
    for planned in described["plan"]["points"]:
        record = point(run_id, planned, number)
        write_json(store.point(record.index, record.concurrency), to_json(record))
        write_json(store.raw / f"{record.index}-{record.name}.json", raw(record))
    for passed in range(5):
        write_json(store.repeat(passed), to_json(repeat(run_id, passed)))
    count = len(described["plan"]["points"])
    end = Outcome(
        run_id=run_id, status="completed", phase="done", cause="", started_at="a", ended_at="b",
        points_written=count, points_planned=count,
    )  # fmt: skip
    write_json(store.outcome, to_json(end))


def point(run_id: str, planned: dict[str, Any], number: int) -> BenchPoint:
    """A plausible record of a planned point; a different speed for every run."""
    c, n = planned["concurrency"], planned["num_prompts"]
    duration = 200.0 + number % 97
    e2el = 0.95 * c * duration / n * 1000
    return BenchPoint(
        run_id=run_id, index=planned["index"], name=planned["name"], engine="vllm",
        rehearsal=False, client=planned["client"], concurrency=c, num_prompts=n,
        isl=planned["isl"], osl=planned["osl"], range_definition=planned["range"]["definition"],
        range_ratio=planned["range"]["ratio"], input_range=planned["range"]["input"],
        output_range=planned["range"]["output"], seed=planned["seed"],
        started_at="2026-08-01T10:00:00+00:00",
        ended_at="2026-08-01T10:10:00+00:00", duration_s=duration, completed=n, failed=0,
        total_input_tokens=n * 7373, total_output_tokens=n * 922, warmup_requests=c,
        request_throughput=n / duration,
        ttft_ms=Latency(mean=900.4, median=800.2, p90=1200.9, p99=2000.5),
        tpot_ms=Latency(mean=20.1, median=20.2, p90=24.3, p99=30.4),
        itl_ms=Latency(mean=20.5, median=19.6, p90=30.7, p99=60.8),
        e2el_ms=Latency(mean=e2el, median=e2el, p90=e2el * 1.2, p99=e2el * 1.5),
        server=ServerCounters(
            decode_external_tokens=(n + c) * 7372.0, prefill_prompt_tokens=(n + c) * 7373.0,
            generation_tokens=(n + c) * 922.0, kv_bytes=n * 2.2e8, kv_transfers=float(n + c),
            kv_failed=0.0, kv_expired=0.0, preemptions=0.0, prefill_cached_tokens=0.0,
        ),
        window=Window(peak_concurrency=c, first_wave_ttft_ms=950.5, later_ttft_ms=880.5),
        stations=Stations(
            span_s=duration * 0.9, prefill=station(), decode=station(), router_active=float(c)
        ),
        raw=planned["result"],
    )  # fmt: skip


def station() -> Station:
    """What a role's ranks were seen doing."""
    return Station(
        ranks=8, looks=800, running=400.5, waiting=3.2, fetching=1.5, busy_share=0.99,
        queued_share=0.2, kv_usage=0.61, kv_usage_p90=0.72, preemptions=0.0, computed_tps=30000.0,
        generation_tps=7000.0, cpu=0.4, cpu_process="decode0", answer_ms=4.0,
    )  # fmt: skip


def raw(record: BenchPoint) -> dict[str, Any]:
    """The client's own result, keys of `vllm bench serve`."""
    found: dict[str, Any] = {
        "date": "20260801-101500", "backend": "vllm", "num_prompts": record.num_prompts,
        "request_rate": "inf", "max_concurrency": record.concurrency, "duration": record.duration_s,
        "completed": record.completed, "failed": 0, "request_throughput": record.request_throughput,
        "total_input_tokens": record.total_input_tokens,
        "total_output_tokens": record.total_output_tokens,
    }  # fmt: skip
    for name in ("ttft", "tpot", "itl", "e2el"):
        for key, value in vars(getattr(record, f"{name}_ms")).items():
            found[f"{key}_{name}_ms"] = value
    return found


def repeat(run_id: str, number: int) -> AccuracyRepeat:
    """One pass over 1,319 questions."""
    right = 1161 + number
    return AccuracyRepeat(
        run_id=run_id, repeat=number, dataset="gsm8k", comparable=True, rehearsal=False,
        questions=1319, answered=1319, correct=right, invalid=3, cut=0, transport_failures=0,
        accuracy=right / 1319, strict_accuracy=right / 1319, duration_s=60.0,
        output_tokens=150000, protocol={"num_shots": 5, "max_tokens": 256},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
