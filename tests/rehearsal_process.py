"""Rehearsal workers and the real router as child processes of a test."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEY = "test-key"
MODEL = "rehearsed"
ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 120.0


def free_port(host: str, count: int = 1) -> int:
    """A port that is free on `host` right now, with `count` - 1 free ones after it."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.create_server((host, 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server((host, port)))
            except (OSError, OverflowError):
                continue
            return int(first)


@contextlib.contextmanager
def running(command: list[str], log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child process with its output in `log`, terminated at the end."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **env}
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(120)


def rehearsal_command(*arguments: str) -> list[str]:
    """The command line of a rehearsal worker."""
    return [sys.executable, "-m", "jobs.rehearsal", "--model", MODEL, *arguments]


@contextlib.contextmanager
def worker(log: Path, host: str, *arguments: str, **env: str) -> Iterator[str]:
    """A rehearsal worker that answers; its URL."""
    port = free_port(host)
    command = rehearsal_command("--host", host, "--port", str(port), *arguments)
    with running(command, log, VLLM_API_KEY=KEY, **env) as process:
        yield wait_healthy(f"http://{host}:{port}", process, log)


@contextlib.contextmanager
def router(log: Path, *arguments: str, **env: str) -> Iterator[str]:
    """The real router over healthy workers; its URL."""
    host = "127.0.0.9"
    port, metrics = free_port(host), free_port("127.0.0.1")
    command = [sys.executable, "-m", "vllm_router.launch_router", *arguments]
    command += ["--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker"]
    command += ["--worker-startup-check-interval", "1", "--host", host, "--port", str(port)]
    command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
    with running(command, log, OPENAI_API_KEY=KEY, **env) as process:
        yield wait_healthy(f"http://{host}:{port}", process, log)


def wait_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """`url` once its /health is 200."""
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):
            return url
        time.sleep(0.02)
    raise AssertionError(f"{url} did not come up: {log.read_text()[-2000:]}")


def post(
    url: str, path: str, body: dict[str, Any], key: str | None = KEY, **headers: str
) -> tuple[int, bytes]:
    """Status and body of a POST."""
    all_headers = {"Content-Type": "application/json"}
    all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        all_headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url + path, json.dumps(body).encode(), all_headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return int(response.status), response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def metric(url: str, name: str, engine: str | None = None) -> float:
    """The sum of a counter's samples whose name and labels contain `name` and the engine."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=120) as response:
        lines = response.read().decode().splitlines()
    wanted = "" if engine is None else f'engine="{engine}"'
    found = [line for line in lines if name in line and wanted in line and line[0] != "#"]
    assert found, f"{name} is not in {url}/metrics"
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)
