"""How long each worker took to start: logs and events into phases, the slowest named."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.bottleneck import bottleneck
from analysis.startup import PHASES, load_startup
from analysis.startup_command import main, startup_frame, startup_text
from analysis.startup_log import milestones, read_milestones
from analysis.stations import stations_of
from analysis.stats_lines import read_stats
from jobs.engines.vllm import VllmDialect
from jobs.store import RunDir
from tests.analysis_runs import point, run_json, write_run

DATA = Path(__file__).parent / "data" / "engine_logs"
RECORD = (
    Path(__file__).parent.parent
    / "benchmarks/records/2026-11-29-h200-capacity/launches/prefill-decode"
)


def at(clock: str) -> float:
    """A time of that day, in seconds since 1970."""
    return datetime.fromisoformat(f"2026-11-29T{clock}+00:00").timestamp()


def worker(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "role": role, "endpoint": 0, "log": f"{name}.log", "argv": []}


def run_with(folder: Path, names: dict[str, str], events: list[dict[str, Any]]) -> Path:
    """A run directory of those workers (name: role) and events."""
    description = run_json()
    description["plan"]["workers"] = [worker(name, role) for name, role in names.items()]
    run = write_run(folder, description)
    lines = "".join(json.dumps(event) + "\n" for event in events)
    RunDir(run).events.write_text(lines)
    return run


def event(t: str, kind: str, step: str, **more: Any) -> dict[str, Any]:
    return {"t": f"2026-11-29T{t}+00:00", "event": kind, "step": step, **more}


def bounds(frame: pd.DataFrame, process: str) -> dict[str, tuple[float | None, float | None]]:
    own = frame[frame["process"] == process]
    pairs = zip(own["phase"], own["start_s"], own["end_s"], strict=True)
    return {
        phase: (None if start is pd.NA else start, None if end is pd.NA else end)
        for phase, start, end in pairs
    }


def h200_run(folder: Path) -> Path:
    """The record of a real launch on an H200 (vLLM 0.26.0, prefill and decode on one GPU)."""
    run = run_with(folder, {"prefill0": "prefill", "decode0": "decode"}, [])
    shutil.copy(RECORD / "events.jsonl", RunDir(run).events)
    for name in ("prefill0.log", "decode0.log"):
        shutil.copy(RECORD / name, RunDir(run).logs / name)
    return run


def test_a_real_start_on_a_gpu_is_split_into_its_phases(tmp_path: Path) -> None:
    frame = load_startup(h200_run(tmp_path / "run"))
    found = bounds(frame, "decode0")
    assert list(found) == list(PHASES)
    begun = at("21:09:18.737")
    assert found["launch"] == pytest.approx((0.001, at("21:09:36") - begun), abs=1e-3)
    weights = (at("21:10:26") - 5.064598 - begun, at("21:10:26") - begun)
    assert found["weights"] == pytest.approx(weights, abs=1e-3)
    assert found["kv_cache"] == pytest.approx((weights[1], at("21:10:50") - begun), abs=1e-3)
    assert found["compile"] == found["graphs"] == (None, None)
    assert found["warmup"] == pytest.approx((at("21:10:50") - begun, at("21:10:56") - begun))
    assert found["ready"] == pytest.approx(
        (at("21:10:56") - begun, at("21:10:59.833") - begun), abs=1e-3
    )
    assert set(frame["node"]) == {"vm"}


def test_a_node_in_another_time_zone_gives_the_same_phases(tmp_path: Path) -> None:
    here, there = h200_run(tmp_path / "here"), h200_run(tmp_path / "there")
    log = RunDir(there).logs / "decode0.log"
    log.write_text(re.sub(r"11-29 21:", "11-30 05:", log.read_text()))
    assert bounds(load_startup(there), "decode0") == bounds(load_startup(here), "decode0")


def test_without_logs_the_drivers_events_are_what_is_known(tmp_path: Path) -> None:
    events = [
        event("10:00:00.000", "started", "decode0", node="n1"),
        event("10:00:04.000", "start_up", "decode0", start_up="import"),
        event("10:00:30.000", "start_up", "decode0", start_up="weights"),
        event("10:01:30.000", "start_up", "decode0", start_up="kv"),
        event("10:02:00.000", "ready", "decode0"),
    ]
    found = bounds(
        load_startup(run_with(tmp_path / "run", {"decode0": "decode"}, events)), "decode0"
    )
    assert found["launch"] == (0.0, 4.0)
    assert found["import"] == (4.0, 30.0)
    assert found["weights"] == (30.0, 90.0)
    assert found["graphs"] == (None, None)
    assert found["ready"] == (90.0, 120.0)


def test_a_log_of_two_ranks_begins_with_the_first_and_ends_with_the_last() -> None:
    marks = read_milestones(DATA / "decode_dp2.log", 2026)
    assert marks.first == at("15:04:54")
    assert marks.begins["weights"] == pytest.approx(at("15:06:51") - 0.264935)
    assert marks.ends["weights"] == at("15:06:51")
    assert marks.ends["kv_cache"] == at("15:06:55")


def test_a_real_start_with_compilation_and_graphs_on_a_gpu() -> None:
    marks = read_milestones(DATA / "gpu_compiled.log", 2026)
    day = datetime.fromisoformat("2026-08-02T07:03:00+00:00").timestamp()
    begins = {phase: t - day for phase, t in marks.begins.items()}
    ends = {phase: t - day for phase, t in marks.ends.items()}
    assert begins == pytest.approx(
        {"weights": 45 - 2.174401, "compile": 46 - 1.74, "kv_cache": 47, "graphs": 48}, abs=1e-3
    )
    assert ends == {"weights": 45, "compile": 46, "kv_cache": 47, "graphs": 49, "engine": 50}


def test_a_real_capture_of_graphs_on_an_h200() -> None:
    """vLLM 0.26.0; the line that announces the capture is a second older than the last one."""
    marks = read_milestones(RECORD.parent.parent / "starts/23.log", 2026)
    assert (marks.begins["graphs"], marks.ends["graphs"]) == (at("21:05:35"), at("21:05:36"))
    assert marks.begins["weights"] == pytest.approx(at("21:05:29") - 5.330908)


def test_weights_are_known_by_the_words_of_both_model_runners() -> None:
    """vLLM 0.26.0 on an H200: the newer runner wrote "GiB and", the older "GiB memory and"."""
    marks = read_milestones(RECORD.parent.parent / "starts/13.log", 2026)
    assert marks.ends["weights"] == at("21:05:03")


def test_between_the_kv_cache_and_the_first_graph_kernels_are_warmed_up(tmp_path: Path) -> None:
    events = [
        event("07:03:40.000", "started", "decode0", node="n1"),
        event("07:03:42.000", "start_up", "decode0", start_up="import"),
        event("07:03:59.000", "ready", "decode0"),
    ]
    run = run_with(tmp_path / "run", {"decode0": "decode"}, events)
    text = (DATA / "gpu_compiled.log").read_text().replace("08-02", "11-29")
    RunDir(run).logs.mkdir(exist_ok=True)
    (RunDir(run).logs / "decode0.log").write_text(text)
    found = bounds(load_startup(run), "decode0")
    assert found["compile"] == pytest.approx((4.26, 6.0), abs=1e-3)
    assert found["kv_cache"] == (6.0, 7.0)
    assert found["warmup"] == (7.0, 8.0)
    assert found["graphs"] == (8.0, 9.0)
    assert found["ready"] == (10.0, 19.0)


def test_compile_and_graphs_begin_as_long_before_their_line_as_they_took() -> None:
    """Lines as vLLM 0.32 formats them: compilation/monitor.py:20, gpu_model_runner.py:6582."""
    stamp = "(Worker pid=1) INFO 11-29 10:00:{} [x.py:1] "
    lines = [
        stamp.format("20") + "torch.compile took 12.50 s in total",
        stamp.format("25") + "Available KV cache memory: 114.11 GiB",
        stamp.format("59") + "Graph capturing finished in 30 secs, took 1.20 GiB",
    ]
    marks = milestones(lines, 2026)
    compiled = (marks.begins["compile"], marks.ends["compile"])
    assert compiled == (at("10:00:07.500"), at("10:00:20"))
    assert (marks.begins["graphs"], marks.ends["graphs"]) == (at("10:00:29"), at("10:00:59"))


def test_a_compilation_on_a_cpu_is_one_while_it_lasts() -> None:
    """vLLM 0.32 says nothing between these lines (v1/worker/cpu_model_runner.py:87), however long
    the compiler takes: the driver must not count it as weights that do not get on."""
    stamp = "(Worker pid=1) INFO 11-29 10:00:{} [cpu_model_runner.py:87] "
    lines = [
        stamp.format("05") + "Loading weights took 0.50 seconds",
        stamp.format("10") + "Warming up model for the compilation...",
        stamp.format("55") + "Warming up done.",
    ]
    marks = milestones(lines, 2026)
    assert (marks.begins["compile"], marks.ends["compile"]) == (at("10:00:10"), at("10:00:55"))
    found = VllmDialect().start_up(lines[1])
    assert found is not None
    assert found.phase == "compile"


@pytest.mark.parametrize(
    "words", ["takes 12.50 s", "took 12.50 s", "and initial profiling/warmup run together took 9 s"]
)
def test_the_driver_knows_a_compilation_by_the_words_of_every_release(words: str) -> None:
    found = VllmDialect().start_up(f"INFO 11-29 10:00:20 [x.py:1] torch.compile {words}")
    assert found is not None
    assert found.phase == "compile"


def test_the_slowest_worker_and_node_are_named_and_who_was_never_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = []
    for number, weights_s in enumerate((10, 50, 12)):
        name, node = f"prefill{number}", f"n{number}"
        loaded = datetime(2026, 11, 29, 10, 0, 20, tzinfo=UTC) + timedelta(seconds=weights_s)
        clock = loaded.time().isoformat()
        events += [
            event("10:00:00.000", "started", name, node=node),
            event("10:00:05.000", "start_up", name, start_up="import"),
            event("10:00:20.000", "start_up", name, start_up="weights"),
            event(clock, "start_up", name, start_up="kv"),
        ]
        if number < 2:
            events.append(event(clock, "ready", name))
    names = {f"prefill{number}": "prefill" for number in range(3)}
    run = run_with(tmp_path / "run", names, events)
    assert main([str(run)]) == 0
    out = capsys.readouterr().out
    assert "slowest worker prefill1 on n1, ready after 70.0 s; most of it weights 50.0 s" in out
    assert "slowest node n1, ready after 70.0 s; median of 2 nodes 50.0 s" in out
    assert "never ready: prefill2" in out
    assert main([str(run), "--out", str(tmp_path / "x.parquet")]) == 0
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert len(frame) == 3 * len(PHASES)
    assert frame.loc[frame["phase"] == "launch", "took_s"].tolist() == [5.0, 5.0, 5.0]


def test_of_several_attempts_the_last_one_counts(tmp_path: Path) -> None:
    events = [
        event("10:00:00.000", "started", "decode0", node="n1"),
        event("10:00:09.000", "ready", "decode0"),
        event("11:00:00.000", "started", "decode0", node="n2"),
    ]
    run = run_with(tmp_path / "run", {"decode0": "decode"}, events)
    frame = load_startup(run)
    assert bounds(frame, "decode0")["launch"] == (0.0, None)
    assert set(frame["node"]) == {"n2"}
    assert "never ready: decode0" in startup_text(startup_frame([run])[0])


def test_a_folder_without_a_run_or_events_is_empty_and_says_so(tmp_path: Path) -> None:
    assert load_startup(tmp_path).empty
    frame, warnings = startup_frame([write_run(tmp_path / "run")])
    assert frame.empty
    assert "no worker was started" in warnings[0]
    assert startup_text(frame) == "nothing was started\n"


def test_statistics_lines_of_a_real_log_are_looks() -> None:
    looks = read_stats(DATA / "decode.log", "decode0", "decode", 2026, 3600.0)
    assert len(looks) == 11
    busiest = max(looks, key=lambda look: look.get("running") or 0.0)
    assert busiest.t == at("14:46:48") + 3600.0
    assert busiest.rank == 0
    assert dict(busiest.numbers) == {
        "computed_tps": 0.5, "generation_tps": 16.2, "running": 4.0, "waiting": 0.0,
        "kv_usage": pytest.approx(0.021), "fetching": 0.0, "preemptions": 0.0,
    }  # fmt: skip


def test_optional_fields_of_a_statistics_line_are_read(tmp_path: Path) -> None:
    """As vLLM 0.32 v1/metrics/loggers.py:279-335 puts them together."""
    line = (
        "INFO 11-29 10:00:00 [loggers.py:335] Engine 003: Avg prompt throughput: 0.1 tokens/s, "
        "Avg generation throughput: 900.0 tokens/s, Running: 40 reqs, Waiting: 25 reqs, "
        "Deferred: 5 reqs, KV fetch: 20 waiting to start, 5 in progress, 2 completed waiting, "
        "Preemptions: 7, GPU KV cache usage: 99.1%, Prefix cache hit rate: 0.0%\n"
    )
    log = tmp_path / "x.log"
    log.write_text(line * 2)
    first, second = read_stats(log, "decode0", "decode", 2026, 0.0)
    assert (first.rank, first.fetching, first.queued) == (3, 5.0, 20.0)
    assert (first.get("fetch_waiting"), first.get("fetched_waiting")) == (20.0, 2.0)
    assert (first.get("preemptions"), second.get("preemptions")) == (7.0, 14.0)
    assert first.get("kv_usage") == pytest.approx(0.991)


def test_an_older_run_without_series_is_judged_by_its_logs(tmp_path: Path) -> None:
    started = event("14:42:50.000", "started", "decode0", node="n1")
    run = run_with(tmp_path / "run", {"decode0": "decode"}, [started])
    shutil.copy(DATA / "decode.log", RunDir(run).logs / "decode0.log")
    window = {"started_at": "2026-11-29T14:46:00Z", "ended_at": "2026-11-29T14:47:30Z"}
    found = stations_of(run, point(**window))
    assert found is not None
    assert found.source == "log"
    assert found.prefill is None
    assert found.decode is not None
    assert found.decode.running == 4.0
    assert found.span_s == 0.0
    said = bottleneck(point(**window), found)
    assert said.evidence.startswith("unknown: too few looks: 1 at each decode rank in 0.0 s")
