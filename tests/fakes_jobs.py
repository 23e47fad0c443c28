"""Run directories made by hand, and small processes that stand in for engines."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from jobs.store import RunDir

PYTHON = sys.executable
REPO = Path(__file__).resolve().parent.parent


def free_ports(count: int) -> list[int]:
    """Ports that were free on all loopback addresses a moment ago."""
    held = []
    for _ in range(count):
        sock = socket.socket()
        sock.bind(("0.0.0.0", 0))
        held.append(sock)
    ports = [int(sock.getsockname()[1]) for sock in held]
    for sock in held:
        sock.close()
    return ports


def step(
    name: str, node: int, argv: list[str], env: dict[str, str] | None = None
) -> dict[str, Any]:
    """A step as the launcher renders it for the local executor."""
    env = env or {}
    command = ["env", *(f"{key}={value}" for key, value in env.items()), *argv] if env else argv
    return {
        "name": name,
        "node": node,
        "argv": argv,
        "env": env,
        "command": command,
        "log": f"{name}.log",
    }


def rehearsal_worker(
    role: str, node: int, http: int, nixl: int, *more: str, dp: int = 1
) -> dict[str, Any]:
    """A rehearsal engine on logical node `node`."""
    name = f"{role}0"
    argv = [PYTHON, "-m", "jobs.rehearsal", "--role", role, "--host", f"{{node{node}.address}}"]
    argv += ["--port", str(http), "--model", "m", "--nixl-base", str(nixl), "--dp", str(dp), *more]
    return {
        **step(name, node, argv, {"VLLM_NIXL_SIDE_CHANNEL_HOST": f"{{node{node}.address}}"}),
        "role": role,
        "endpoint": 0,
        "node_rank": 0,
        "leader": True,
        "gpus": [0],
        "dp_ranks": list(range(dp)),
        "dp": dp,
        "url": f"http://{{node{node}.address}}:{http}",
        "ports": {"http": http, "nixl": [nixl + rank for rank in range(dp)]},
        "listeners": [
            {"what": f"nixl side channel rank {rank}", "port": nixl + rank} for rank in range(dp)
        ],
    }


def point(index: int, concurrency: int, client: list[str] | None, base_url: str) -> dict[str, Any]:
    """A point measured by the native client, or by `client`."""
    name = f"c{concurrency}"
    result = f"points/raw/{index}-{name}.json"
    argv = client or [
        *(PYTHON, "-m", "jobs.clients.native", "--base-url", base_url, "--model", "m"),
        *("--gate", "{run_dir}/gates", "--name", name, "--result", f"{{run_dir}}/{result}"),
        *("--concurrency", str(concurrency), "--num-prompts", str(4 * concurrency)),
        *("--warmup", "2", "--input-range", "100", "120", "--output-range", "8", "10"),
        *("--seed", str(index), "--vocab-size", "2000", "--timeout-s", "60"),
    ]
    return {
        "index": index,
        "name": name,
        "concurrency": concurrency,
        "num_prompts": 4 * concurrency,
        "warmup_requests": 2,
        "isl": 120,
        "osl": 10,
        "range": {
            "definition": "inferencemax",
            "ratio": 0.8,
            "input": [100, 120],
            "output": [8, 10],
        },
        "seed": index,
        "client": "native",
        "step": step(f"client-{name}", 0, argv),
        "result": result,
    }


HELD = 'while [ -e "$0" ]; do sleep 0.2; done; exec "$@"'


def held_back(step: dict[str, Any], hold: Path) -> Path:
    """Changes a step so that its program begins once the file `hold` is removed."""
    hold.touch()
    for words in (step["argv"], step["command"]):
        if words[:2] != ["sh", "-c"]:
            words[:0] = ["sh", "-c", HELD, str(hold)]
    return hold


def run_document(**plan: Any) -> dict[str, Any]:
    """run.json of a small run; `plan` overrides parts of the plan."""
    budgets = {
        "preflight_s": 60,
        "start_s": 120,
        "router_s": 120,
        "canary_s": 120,
        "prepare_s": 300,
        "point_s": 300,
        "accuracy_s": 120,
        "teardown_s": 12,
    }
    canary = {"enabled": True, "prompts": 8, "tokens": 16, "prompt_tokens": 64, "form": "exact"}
    return {
        "schema": 1,
        "run_id": "r-test",
        "name": "test",
        "created": "2026-01-01T00:00:00+00:00",
        "labels": {},
        "engine": {"name": "rehearsal", "protocol": "vllm", "release": "0.33.0", "rehearsal": True},
        "config": {},
        "provenance": {},
        "plan": {
            "executor": "local",
            "nodes": 1,
            "gpus_per_node": 4,
            "served_model": "m",
            "tokenizer": "none",
            "vocab_size": 32000,
            "needs_gpu": False,
            "uses_nixl": True,
            "workers": [],
            "router": None,
            "base_url": "http://{node0.address}:1",
            "points": [],
            "accuracy": None,
            "canary": canary,
            "budgets": budgets,
            "preflight": {"paths": [], "executables": [], "min_free_disk_gb": 0.0},
            **plan,
        },
    }


def pair_run(
    *,
    prefill_dp: int = 1,
    decode_dp: int = 1,
    prefill_more: tuple[str, ...] = (),
    decode_more: tuple[str, ...] = (),
    points: tuple[int, ...] = (4,),
    client: list[str] | None = None,
    **plan: Any,
) -> dict[str, Any]:
    """One rehearsal prefill and one decode on two logical nodes, behind the real router."""
    router, metrics, p_http, d_http = free_ports(4)
    p_nixl, d_nixl = p_http // 2 + 2000, d_http // 2 + 2000
    base = f"http://{{node0.address}}:{router}"
    argv = [str(Path(PYTHON).parent / "vllm-router"), "--host", "{node0.address}"]
    argv += ["--port", str(router), "--prometheus-host", "{node0.address}"]
    argv += ["--prometheus-port", str(metrics), "--vllm-pd-disaggregation"]
    argv += ["--prefill", f"http://{{node0.address}}:{p_http}"]
    argv += ["--decode", f"http://{{node1.address}}:{d_http}", "--kv-connector", "nixl"]
    argv += ["--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker"]
    argv += ["--worker-startup-check-interval", "1"]
    settings: dict[str, Any] = {
        "nodes": 2,
        "workers": [
            rehearsal_worker("prefill", 0, p_http, p_nixl, *prefill_more, dp=prefill_dp),
            rehearsal_worker("decode", 1, d_http, d_nixl, *decode_more, dp=decode_dp),
        ],
        "router": {
            **step("router", 0, argv),
            "url": base,
            "listeners": [{"what": "metrics", "port": metrics}],
        },
        "base_url": base,
        "points": [point(i, c, client, base) for i, c in enumerate(points)],
        **plan,
    }
    return run_document(**settings)


def make_run(folder: Path, document: dict[str, Any]) -> RunDir:
    """A run directory holding `document`."""
    folder.mkdir(parents=True, exist_ok=True)
    run_dir = RunDir(folder)
    run_dir.run_json.write_text(json.dumps(document))
    return run_dir


def start_driver(run_dir: RunDir) -> subprocess.Popen[str]:
    """`python -m jobs run RUN` as a process, its output in driver.log."""
    with (run_dir.path / "driver.log").open("w") as stream:
        return subprocess.Popen(
            [PYTHON, "-m", "jobs", "run", str(run_dir.path)],
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("SLURM_")},
        )


def events(run_dir: RunDir) -> list[dict[str, Any]]:
    """Everything in events.jsonl so far; a line that a full disk cut off is left out."""
    found = []
    for line in run_dir.events.read_text().splitlines() if run_dir.events.exists() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def wait_for_event(run_dir: RunDir, within_s: float = 60.0, **wanted: Any) -> dict[str, Any]:
    """The first event with these fields; without it AssertionError with the driver's log."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        for event in events(run_dir):
            if wanted.items() <= event.items():
                return event
        time.sleep(0.05)
    raise AssertionError(f"no event {wanted}: {(run_dir.path / 'driver.log').read_text()}")


def outcome(run_dir: RunDir) -> dict[str, Any]:
    """outcome.json."""
    found: dict[str, Any] = json.loads(run_dir.outcome.read_text())
    return found


def left_over(run_dir: RunDir) -> list[str]:
    """Living processes whose command line names this run, or that the run started."""
    started = {str(event["pid"]) for event in events(run_dir) if event["event"] == "started"}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state != "Z" and line and (entry.name in started or str(run_dir.path) in line):
            found.append(f"{entry.name} {line}")
    return found
