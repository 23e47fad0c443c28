"""The fake server (benchmarks/fake_server/server.c) as a child process, and the truth it wrote."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parents[1] / "fake_server" / "server.c"


@dataclass
class Fake:
    """A running server. After it stopped: its own CPU seconds, and one row a request."""

    url: str
    cpu_s: float = 0.0
    truth: np.ndarray | None = None
    """Columns: first byte in, last byte in, first event out, last event out (monotonic, s)."""

    def ttft_s(self) -> np.ndarray:
        """From the request's last byte to the first event, for every request."""
        return self.truth[:, 2] - self.truth[:, 1]

    def span_s(self) -> np.ndarray:
        """From the first event to the last."""
        return self.truth[:, 3] - self.truth[:, 2]


def build(folder: Path) -> Path:
    """The compiled server; needs a C compiler."""
    program = folder / "fake_server"
    subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
    return program


@contextlib.contextmanager
def fake_server(program: Path, folder: Path, *options: str) -> Iterator[Fake]:
    """The server on a free port while inside."""
    log = folder / "truth.bin"
    command = [str(program), "port=0", f"log={log}", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = process.stdout.readline().split()[1]
    fake = Fake(f"http://127.0.0.1:{port}")
    try:
        yield fake
    finally:
        process.send_signal(signal.SIGTERM)
        fake.cpu_s = float(process.communicate()[0].split("cpu_s")[1])
        fake.truth = np.fromfile(log).reshape(-1, 4)


def make_prompts(
    path: Path, count: int, tokens: int, answer: int, vocabulary: int = 150_000, seed: int = 0
) -> Path:
    """Random token ids, `tokens` a prompt."""
    command = [sys.executable, "-m", "jobs.prompts", "make", "--vocab-size", str(vocabulary)]
    command += ["--seed", str(seed), "--count", str(count), "--warmup", "0", "--out", str(path)]
    command += ["--input-range", str(tokens), str(tokens)]
    command += ["--output-range", str(answer), str(answer)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return path


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def record(path: Path | None, data: object) -> None:
    """What was measured, kept as JSON."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
