"""Whole programs as peers: `vllm bench serve` and `aiperf profile`, as a user starts them.

Their CPU seconds are those of all their processes between the first request's first byte and the
last answer's last event, as the fake server wrote them down; `whole_cpu_s` beside it is everything
from start to exit (imports, data set, report).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.load_client.peers import Cost, descendants, highest_rss, looking
from benchmarks.load_client.server import Fake

TEXTS = 512
"""Different texts; both programs use them again and again for more requests."""
PAUSE_S = 0.05
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
LIMIT_S = 900


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which whole programs take part."""
    add = parser.add_argument
    add("--vllm", type=Path, help="the vllm command: all of `vllm bench serve`")
    add("--aiperf", type=Path, help="the aiperf command")
    add("--tokenizer", default="builtin", help="of AIPerf, which loads one in any case")


@dataclass(frozen=True)
class Run:
    """A whole program, to be run as often as one likes."""

    label: str
    start: Callable[[str, int, int], Cost]

    def __call__(self, url: str, streams: int, requests: int) -> Cost:
        """One run against a server."""
        return self.start(url, streams, requests)


def chosen(given: argparse.Namespace, folder: Path, words: int, answer: int) -> list[Run]:
    """Those of the command line; texts of so many words, answers of so many tokens."""
    found = []
    texts = make_texts(folder, words) if given.vllm or given.aiperf else {}
    if given.vllm:
        command = (str(given.vllm), "bench", "serve")

        def vllm(url: str, streams: int, requests: int) -> Cost:
            return vllm_bench_serve(command, url, texts["vllm"], streams, requests, answer)

        found.append(Run("vllm bench serve, whole", vllm))
    if given.aiperf:

        def perf(url: str, streams: int, requests: int) -> Cost:
            return aiperf(given.aiperf, url, texts["aiperf"], streams, requests, given.tokenizer)

        found.append(Run("aiperf, whole", perf))
    return found


def make_texts(folder: Path, words: int) -> dict[str, Path]:
    """Texts of so many words of four letters, in the form each program reads."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]
    some = [a + b for a in syllables for b in syllables]
    texts = [" ".join(rng.choices(some, k=words)) for _ in range(TEXTS)]
    found = {}
    for client, key in (("vllm", "prompt"), ("aiperf", "text")):
        path = found[client] = folder / f"{client}.jsonl"
        path.write_text("".join(json.dumps({key: text}) + "\n" for text in texts))
    return found


def vllm_bench_serve(
    command: Sequence[str], url: str, texts: Path, streams: int, requests: int, answer: int
) -> Cost:
    """`command` is what a user types before the options: .../bin/vllm bench serve."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*command, "--backend", "openai", "--base-url", url, "--model", "fake"]
        words += ["--skip-tokenizer-init", "--dataset-name", "custom", "--dataset-path", str(texts)]
        words += ["--skip-chat-template", "--custom-output-len", str(answer)]
        words += ["--num-prompts", str(requests), "--max-concurrency", str(streams)]
        words += ["--ignore-eos", "--ready-check-timeout-sec", "0", "--disable-tqdm"]
        words += ["--save-result", "--save-detailed", "--result-dir", folder]
        words += ["--result-filename", "result.json", "--num-warmups", "0"]
        seen = watched("vllm bench serve, whole", words)
        told = json.loads((Path(folder) / "result.json").read_text())
    ttft = np.array(
        [t for t, error in zip(told["ttfts"], told["errors"], strict=True) if not error]
    )
    return replace(seen, completed=len(ttft), failed=requests - len(ttft), ttft_s=ttft)


def aiperf(
    program: Path, url: str, texts: Path, streams: int, requests: int, tokenizer: str
) -> Cost:
    """With the server's token counts: its own would cost it many times as much."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(program), "profile", "--model", "fake", "--url", url, "--tokenizer", tokenizer]
        words += ["--endpoint-type", "completions", "--streaming", "--use-server-token-count"]
        words += ["--input-file", str(texts), "--custom-dataset-type", "single_turn"]
        words += ["--concurrency", str(streams), "--request-count", str(requests)]
        words += ["--ui", "none", "--no-server-metrics", "--no-gpu-telemetry"]
        words += ["--output-artifact-dir", folder, "--export-level", "records"]
        seen = watched("aiperf, whole", words)
        ttft = list(records_ttft_s(Path(folder) / "profile_export.jsonl"))
    return replace(seen, completed=len(ttft), failed=requests - len(ttft), ttft_s=np.array(ttft))


def records_ttft_s(path: Path) -> Iterator[float]:
    """Of the requests that aiperf found good."""
    for line in path.read_text().splitlines():
        metrics = json.loads(line)["metrics"]
        if "time_to_first_token" in metrics:
            yield metrics["time_to_first_token"]["value"] / 1e3


def watched(name: str, words: Sequence[str]) -> Cost:
    """Runs a program to its end, noting the CPU seconds of all its processes meanwhile."""
    # Told that it is offline, AIPerf takes a tokenizer's folder for a name.
    env = {
        k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    }
    begun = time.monotonic()
    with highest_rss() as rss, tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, env=env)
        with cpu_noted(child.pid) as noted:
            status = wait_and_count(child)
        if status[0]:
            said.seek(0)
            raise SystemExit(f"{' '.join(words)}\n{said.read()[-3000:]}")
    nothing = np.array([])
    return Cost(
        client=name,
        cpu_s=status[1],
        wall_s=time.monotonic() - begun,
        rss_mb=rss[0],
        completed=0,
        failed=0,
        ttft_s=nothing,
        e2el_s=nothing,
        tpot_s=nothing,
        more={"noted": noted, "whole_cpu_s": status[1]},
    )


def wait_and_count(child: subprocess.Popen) -> tuple[int, float]:
    """Its exit status, and the CPU seconds of it and of all it waited for."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, used.ru_utime + used.ru_stime
        time.sleep(PAUSE_S)
    child.kill()
    child.wait()
    return 1, 0.0


@contextmanager
def cpu_noted(pid: int) -> Iterator[list[tuple[float, float]]]:
    """While inside, notes (monotonic s, CPU s of `pid` and all below it, ended ones too)."""
    noted: list[tuple[float, float]] = []

    def look() -> None:
        noted.append((time.monotonic(), sum(map(cpu_s, [pid, *descendants(pid)]))))

    with looking(look, PAUSE_S):
        yield noted


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of the children it waited for; 0 when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) * TICK_S


def in_span(cost: Cost, fake: Fake) -> Cost:
    """A whole program's cost between its first request and its last answer; others unchanged."""
    noted = cost.more.pop("noted", None)
    if noted is None:
        return cost
    first, last = float(fake.truth[:, 0].min()), float(fake.truth[:, 3].max())
    times, cpu = np.array(noted).T
    used = np.interp([first, last], times, cpu)
    return replace(cost, cpu_s=float(used[1] - used[0]), wall_s=last - first)
