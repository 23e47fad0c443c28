"""The native client and its peers, each sending one prompt file once; what it cost and saw.

CPU seconds are those of the span in which requests are sent: neither imports, nor data sets, nor
the work-up of results are in them. RSS is the sum over all processes of a client, at its highest.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jobs.clients.figures import Limits, chunk_gaps, figures, own_load
from jobs.clients.load import Load
from jobs.clients.measuring import measure
from jobs.prompts.reader import PromptFile

HERE = Path(__file__).parent
PAGE_MB = 4096 / 1e6


@dataclass
class Cost:
    """One client's run. Times in seconds."""

    client: str
    cpu_s: float
    wall_s: float
    rss_mb: float
    completed: int
    failed: int
    ttft_s: np.ndarray
    e2el_s: np.ndarray
    tpot_s: np.ndarray
    gaps_s: np.ndarray = field(default_factory=lambda: np.array([]))
    """Between two chunks of a request, all requests': what `vllm bench serve` calls ITL."""
    more: dict = field(default_factory=dict)

    def per_1000(self) -> float:
        """CPU seconds per 1,000 requests."""
        return self.cpu_s / (self.completed + self.failed) * 1000


def native(url: str, path: Path, concurrency: int, processes: int, model: str = "fake") -> Cost:
    """The native client with so many processes."""
    timeout_s = 300.0
    prompts = PromptFile.open(path)
    load = Load(
        base_url=url,
        model=model,
        prompts=str(path),
        concurrency=concurrency,
        timeout_s=timeout_s,
        stall_timeout_s=timeout_s,
    )
    with highest_rss() as rss:
        outcome = asyncio.run(measure(load, prompts, processes))
    found = outcome.measured
    told = figures(found, prompts.prompt_tokens, Limits())
    columns, good = found.columns, found.good
    first, last = columns["first_s"][good], columns["last_s"][good]
    sent, made = columns["sent_s"][good], columns["output_tokens"][good]
    return Cost(
        client=f"native, {processes} process{'es' if processes > 1 else ''}",
        cpu_s=sum(found.cpu_s),
        wall_s=told["duration"],
        rss_mb=rss[0],
        completed=told["completed"],
        failed=told["failed"],
        ttft_s=first - sent,
        e2el_s=last - sent,
        tpot_s=(last - first) / np.maximum(made - 1, 1),
        gaps_s=chunk_gaps(found),
        more=own_load(found)
        | {key: told[key] for key in ("request_throughput", "output_throughput")}
        | {"errors": told["error_counts"]},
    )


def other(name: str, python: Path, script: str, *words: str) -> Cost:
    """A peer's own script under peers/, in the Python that has the peer."""
    command = [str(python), str(HERE / "scripts" / script), *words]
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as result:
        env = {**os.environ, "PEER_RESULT": result.name}
        with highest_rss() as rss:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise SystemExit(f"{name}: {' '.join(command)}\n{done.stderr[-2000:]}")
        return result_of(name, Path(result.name), rss[0])


def result_of(name: str, file: Path, rss_mb: float) -> Cost:
    """What a peer's script left."""
    told = json.loads(file.read_text(encoding="utf-8"))
    arrays = {key: np.array(told.pop(key)) for key in ("ttft_s", "e2el_s", "tpot_s", "gaps_s")}
    return Cost(client=name, rss_mb=rss_mb, **told, **arrays)


@contextmanager
def vllm_bench_kept(python: Path) -> Iterator[Callable[[str, Path, int, str], Cost]]:
    """`vllm_bench` as a function of URL, prompts, concurrency and model, imported once."""
    script = str(HERE / "scripts" / "vllm_bench.py")
    pipe = subprocess.PIPE
    child = subprocess.Popen([str(python), script], stdin=pipe, stdout=pipe, text=True)

    def run(url: str, path: Path, concurrency: int, model: str) -> Cost:
        with tempfile.NamedTemporaryFile() as result:
            asked = json.dumps([url, str(path), concurrency, model, result.name])
            child.stdin.write(asked + "\n")
            child.stdin.flush()
            if "done\n" not in iter(child.stdout.readline, ""):  # vLLM logs there, too
                raise SystemExit("vllm bench ended; its own words are above")
            return result_of("vllm bench", Path(result.name), rss_mb(child.pid))

    try:
        yield run
    finally:
        child.stdin.close()
        child.wait()


def vllm_bench(python: Path, url: str, path: Path, concurrency: int, model: str = "fake") -> Cost:
    """`vllm bench serve`'s own benchmark() with the same prompts."""
    return other("vllm bench", python, "vllm_bench.py", url, str(path), str(concurrency), model)


def vllm_function(
    file: Path, url: str, path: Path, concurrency: int, python: Path = Path(sys.executable)
) -> Cost:
    """Its request function alone (vllm/benchmarks/lib/endpoint_request_func.py), without vLLM."""
    words = (str(file), url, str(path), str(concurrency))
    return other("vllm bench's request function", python, "vllm_function.py", *words)


def aiohttp(url: str, path: Path, concurrency: int) -> Cost:
    """The least an aiohttp client does."""
    words = (url, str(path), str(concurrency))
    return other("aiohttp + orjson, minimal", Path(sys.executable), "aiohttp_client.py", *words)


@contextmanager
def highest_rss() -> Iterator[list[float]]:
    """While inside, watches this process' children; the one entry is their highest sum in MB."""
    most = [0.0]
    own = int(Path("/proc/self").resolve().name)

    def look() -> None:
        most[0] = max(most[0], sum(map(rss_mb, descendants(own))))

    with looking(look, 0.2):
        yield most


@contextmanager
def looking(look: Callable[[], None], pause_s: float) -> Iterator[None]:
    """While inside, calls `look` after every pause, beside what is done here."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(pause_s):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def descendants(pid: int) -> list[int]:
    """Processes started by `pid`, directly or not; not the fake server."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            words = task.read_text().split()
        except OSError:
            continue
        for word in words:
            found += [int(word), *descendants(int(word))]
    return [p for p in found if name_of(p) != "fake_server"]


def name_of(pid: int) -> str:
    """The program's name; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def rss_mb(pid: int) -> float:
    """Resident memory; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MB
    except OSError:
        return 0.0


def rested(seconds: float = 1.0) -> None:
    """Time for closed connections to go."""
    time.sleep(seconds)
