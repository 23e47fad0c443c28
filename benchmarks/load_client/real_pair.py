"""A real prefill worker, decode worker and router on this machine, started as a run starts them.

The commands are those of `python -m launcher ... dry_run=json`, word for word; only the places a
run fills in itself (its node's address, its cache folder) are filled in here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"
START_S = 1500.0
"""A pair is up in a minute; with the machine's cores shared by ten others, in ten."""
TRANSFERRED = re.compile(r"^(vllm:nixl_bytes_transferred_sum)\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pair:
    """A running deployment: where requests go, and where decode tells its counters."""

    url: str
    model: str
    decode: str

    def moved_bytes(self) -> float:
        """KV bytes that decode has fetched over NIXL so far."""
        page = read(f"{self.decode}/metrics")
        return sum(float(value) for _, value in TRANSFERRED.findall(page))


@contextlib.contextmanager
def real_pair(words: Sequence[str], folder: Path) -> Iterator[Pair]:
    """The deployment that these launcher words plan, while inside."""
    plan = planned(words, folder)
    started: list[subprocess.Popen] = []
    try:
        for step in plan["workers"]:
            started.append(begin(step, folder))
        for step in plan["workers"]:
            await_answer(f"{step['url']}/health", started, folder)
        started.append(begin(plan["router"], folder))
        serve = plan["workers"][0]["argv"]
        model = serve[serve.index("--served-model-name") + 1]
        pair = Pair(
            url=plan["router"]["url"],
            model=model,
            decode=next(s["url"] for s in plan["workers"] if s["role"] == "decode"),
        )
        first_token(pair, started, folder)
        yield pair
    finally:
        for child in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def planned(words: Sequence[str], folder: Path) -> dict[str, Any]:
    """The plan, with this machine's address and a cache folder for the places left open."""
    command = [sys.executable, "-m", "launcher", *words, "dry_run=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    text = done.stdout.replace("/CACHE", str(folder / "cache"))
    return json.loads(re.sub(r"\bnode0\b", ADDRESS, text))


def begin(step: dict[str, Any], folder: Path) -> subprocess.Popen:
    """A step in a process group of its own, its words in a log."""
    with (folder / step["log"]).open("w") as log:
        return subprocess.Popen(
            step["argv"],
            env={**os.environ, **step["env"]},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def await_answer(url: str, started: Sequence[subprocess.Popen], folder: Path) -> None:
    """Returns when `url` answers; SystemExit when a process ended or it takes too long."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            read(url)
            return
        if any(child.poll() is not None for child in started):
            break
        time.sleep(0.5)
    ends = "\n".join(p.read_text(errors="replace")[-1500:] for p in sorted(folder.glob("*.log")))
    raise SystemExit(f"{url} did not answer\n{ends}")


def first_token(pair: Pair, started: Sequence[subprocess.Popen], folder: Path) -> None:
    """Returns when one request has gone through router, prefill and decode."""
    await_answer(f"{pair.url}/v1/models", started, folder)
    body = json.dumps({"model": pair.model, "prompt": [7] * 20, "max_tokens": 2}).encode()
    for attempt in range(60):
        asked = urllib.request.Request(
            f"{pair.url}/v1/completions", body, {"Content-Type": "application/json"}
        )
        try:
            urllib.request.urlopen(asked, timeout=300).read()
        except urllib.error.HTTPError as error:
            # The handshake of two workers on a busy machine can take longer than it may.
            if attempt == 59:
                raise SystemExit(f"no first token: {error.read().decode()[:500]}") from error
            time.sleep(2)
        else:
            return


def read(url: str) -> str:
    """A page's text; OSError."""
    with urllib.request.urlopen(url, timeout=60) as page:
        return page.read().decode()
