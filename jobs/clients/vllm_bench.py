"""`vllm bench serve` with prompts made beforehand and held at the gate.

For the engine's own Python: of this package it imports the prompts' reader only.

    python -m jobs.clients.vllm_bench --gate DIR --name c64 --prompts FILE --result FILE
        -- <arguments of vllm bench serve>

The prompt file (docs/prompts.md) is waited for: whoever makes it renames it there whole.

The arguments after -- go to vLLM's own parser and the measurement is vLLM's own; what is replaced
is where its prompts come from (vllm.benchmarks.serve.get_samples), and its warm-up, which would
send the first measured prompt again and again. The result is vLLM's result JSON plus
`error_counts`; the per-request arrays go to <result>.requests.json. Exit codes: 0 result
written, 2 cannot run, 3 told to stop by <gate>/<name>.stop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.metadata
import inspect
import io
import json
import logging
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.prompts.reader import PromptFile, PromptFileError

POLL_S = 0.05
PROGRESS_S = 2.0
EXIT_CANNOT = 2
EXIT_STOPPED = 3
SERVE_MODULE = "vllm.benchmarks.serve"
# Owned here: vLLM's parser gets these after the caller's words, so these win.
OWNED = ("--dataset-name", "custom", "--num-warmups", "0", "--ready-check-timeout-sec", "0")
ARRAYS = (
    "input_lens", "output_lens", "start_times", "ttfts", "latencies", "queue_times", "errors",
)  # fmt: skip
LONG_ARRAYS = ("itls", "generated_texts")
ERROR_LENGTH = 200
USED_PARAMETERS = {
    "benchmark": (
        "input_requests",
        "request_rate",
        "burstiness",
        "disable_tqdm",
        "num_warmups",
        "ready_check_timeout_sec",
    ),
    "SampleRequest": ("prompt", "prompt_len", "expected_output_len"),
}
KNOWN = (
    "this client knows the benchmark of vLLM 0.32: choose client native, or adapt "
    "jobs/clients/vllm_bench.py"
)

log = logging.getLogger("vllm_bench")


class BenchError(RuntimeError):
    """The benchmark cannot run; the text is the whole message."""


class GateStopError(Exception):
    """The client was told not to run (any more)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Three files in one folder: we write .ready, whoever runs us writes .go or .stop."""

    folder: Path
    name: str

    def say_ready(self) -> None:
        """Everything that takes time is prepared."""
        write_text(self.folder / f"{self.name}.ready", "ready\n")

    def check_stop(self) -> None:
        """GateStopError when `.stop` is there or the folder is gone."""
        if (self.folder / f"{self.name}.stop").exists():
            raise GateStopError(f"told to stop by {self.folder / self.name}.stop")
        if not self.folder.is_dir():
            raise GateStopError(f"gate folder {self.folder} is gone")

    def wait_for_go(self) -> None:
        """Returns once `.go` is there."""
        while not (self.folder / f"{self.name}.go").exists():
            self.check_stop()
            time.sleep(POLL_S)

    async def watch_stop(self) -> None:
        """Never returns; GateStopError as soon as `.stop` is there."""
        while True:
            self.check_stop()
            await asyncio.sleep(5 * POLL_S)


class RequestCounter:
    """In place of vLLM's progress bar: counts the requests that ended, and says how many in
    <gate>/<name>.progress (read by jobs/progress.py), from a thread that delays no request."""

    def __init__(self, gate: Gate, prompts: Sequence[Prompt]) -> None:
        self._path = gate.folder / f"{gate.name}.progress"
        self._total = len(prompts)
        self._tokens = sum(prompt.tokens + prompt.output_tokens for prompt in prompts)
        self._done = 0
        self._begun = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._tell, daemon=True, name="progress").start()

    def update(self, count: int = 1) -> None:
        """So many more requests ended, well or badly."""
        self._done += count

    def close(self) -> None:
        """All requests ended."""
        self._over.set()

    def _tell(self) -> None:
        while not self._over.is_set():
            done = min(self._done, self._total)
            told = {"stage": "measured", "done": done, "failed": 0, "total": self._total}
            told |= {"elapsed_s": time.monotonic() - self._begun, "t": time.time()}
            told |= {"tokens": self._tokens * done / self._total, "exact": False}
            with contextlib.suppress(OSError):
                write_text(self._path, json.dumps(told) + "\n")
            self._over.wait(PROGRESS_S)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: its text, its length as the server counts it, and how many tokens to answer."""

    text: str
    tokens: int
    output_tokens: int


def parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the words for vLLM's parser without a leading `vllm bench serve`."""
    words = list(arguments)
    if "--" not in words:
        words.append("--")
    cut = words.index("--")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--gate", type=Path, required=True, help="folder of the .ready, .go and .stop files")
    add("--name", required=True, help="name of those files")
    add("--prompts", type=Path, required=True, help="prompt file of text, waited for")
    add("--result", type=Path, required=True)
    add("--warmup-rate", type=float, help="requests a second of the warm-up; else a closed loop")
    add("--vllm-bench-json", type=Path, help="vLLM's own result file, with its arrays")
    options = parser.parse_args(words[:cut])
    bench = words[cut + 1 :]
    for lead in ("vllm", "bench", "serve"):
        if bench[:1] == [lead]:
            del bench[0]
    if not bench:
        parser.error("no arguments of vllm bench serve after --")
    return options, bench


def wait_for_prompts(path: Path, gate: Gate) -> None:
    """Returns when the prompt file is there."""
    while not path.exists():
        gate.check_stop()
        time.sleep(POLL_S)


def load_prompts(path: Path, num_prompts: int) -> tuple[list[Prompt], list[Prompt]]:
    """Warm-up prompts and measured prompts of a prompt file."""
    try:
        file = PromptFile.open(path)
    except PromptFileError as error:
        raise BenchError(str(error)) from error
    if file.form != "text":
        raise BenchError(f"{path} holds prompts of form {file.form}; vllm bench serve sends text")
    if file.count != num_prompts:
        raise BenchError(f"{path} holds {file.count} prompts, --num-prompts asks for {num_prompts}")
    prompts = [
        Prompt(file.text(number).decode(), int(tokens), int(output))
        for number, (tokens, output) in enumerate(
            zip(file.prompt_tokens, file.output_tokens, strict=True)
        )
    ]
    return prompts[: file.warmup], prompts[file.warmup :]


class VllmBench:
    """vLLM's benchmark with our prompts, our warm-up and our gate."""

    def __init__(self, gate: Gate, warmup_rate: float | None = None) -> None:
        self.gate = gate
        self.warmup_rate = warmup_rate or math.inf
        self.load: dict[str, Any] = {}
        self.version, self.serve = load_serve()
        self.original: Callable[..., Any] = self.serve.benchmark
        self.warmup: list[Prompt] = []
        self.measured: list[Prompt] = []
        self.warmup_errors: dict[str, int] = {}

    def parse(self, bench: Sequence[str]) -> argparse.Namespace:
        """The words as vLLM's own parser reads them, with what is owned here."""
        utilities = importlib.import_module("vllm.utils.argparse_utils")
        parser = utilities.FlexibleArgumentParser(prog="vllm bench serve")
        self.serve.add_cli_args(parser)
        args: argparse.Namespace = parser.parse_args([*bench, *OWNED])
        # vLLM would write its file with every inter-token time in it: it returns the same to us.
        args.save_result = args.append_result = False
        args.save_detailed = True
        return args

    def run(self, args: argparse.Namespace) -> dict[str, Any]:
        """Park at the gate, then vLLM's result, arrays included."""
        self.serve.get_samples = self.samples
        self.serve.benchmark = self.warm_and_measure
        result = self.serve.main(args)
        missing = {"completed", "failed", "duration", "errors"} - set(result or ())
        if missing:
            raise self.changed(f"its result has no {', '.join(sorted(missing))}")
        found: dict[str, Any] = result
        return found

    def samples(self, *_args: Any, **_named: Any) -> list[Any]:
        """In place of get_samples, called with the tokenizer loaded: the prompts, after go."""
        requests = self.requests(self.measured)
        self.gate.say_ready()
        log.info("ready with %d prompts and %d for warm-up", len(requests), len(self.warmup))
        self.gate.wait_for_go()
        return requests

    def requests(self, prompts: Iterable[Prompt]) -> list[Any]:
        """The prompts as vLLM's request objects; no text is tokenized again."""
        kind = self.serve.SampleRequest
        return [
            kind(prompt=p.text, prompt_len=p.tokens, expected_output_len=p.output_tokens)
            for p in prompts
        ]

    async def warm_and_measure(self, **named: Any) -> Any:
        """In place of benchmark(): the same call with the warm-up prompts, then as it was."""
        if self.warmup:
            log.info("warm-up: %d requests", len(self.warmup))
            ask = {**named, "input_requests": self.requests(self.warmup), "disable_tqdm": True}
            ask |= {"request_rate": self.warmup_rate, "burstiness": 1.0}
            with contextlib.redirect_stdout(io.StringIO()):
                warm = await self.until_stop(self.original(**ask))
            self.warmup_errors = count_errors(warm.get("errors", ()), warm.get("failed", 0))
            if self.warmup_errors:
                log.warning("warm-up requests failed: %s", self.warmup_errors)
        log.info("measured run: %d requests", len(self.measured))
        begun, cpu = time.monotonic(), time.process_time()
        try:
            return await self.counted(named)
        finally:
            wall, spent = time.monotonic() - begun, time.process_time() - cpu
            self.load = {"client_processes": 1, "client_cpu_s": spent}
            self.load["client_cpu_share"] = spent / wall if wall > 0 else 0.0

    async def counted(self, named: Mapping[str, Any]) -> Any:
        """vLLM's own measurement, with its progress told where its bar can be replaced."""
        if not callable(getattr(self.serve, "tqdm", None)):
            return await self.until_stop(self.original(**named))
        counter = RequestCounter(self.gate, self.measured)
        self.serve.tqdm = lambda *_args, **_named: counter
        try:
            return await self.until_stop(self.original(**{**named, "disable_tqdm": False}))
        finally:
            counter.close()

    async def until_stop(self, work: Any) -> Any:
        """What `work` gives, unless we are told to stop before."""
        tasks = {asyncio.ensure_future(work), asyncio.ensure_future(self.gate.watch_stop())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in tasks:
                task.cancel()

    def changed(self, what: str) -> BenchError:
        """What to say when vLLM's benchmark is not the one this file knows."""
        return BenchError(f"vLLM {self.version}: {SERVE_MODULE}: {what}; {KNOWN}")


def load_serve() -> tuple[str, Any]:
    """vLLM's version and its benchmark module, checked for every name that is used or replaced."""
    try:
        version = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError as error:
        raise BenchError(
            f"{sys.executable} has no vLLM: run this with the engine's Python"
        ) from error
    try:
        serve = importlib.import_module(SERVE_MODULE)
        importlib.import_module("vllm.utils.argparse_utils")
    except ImportError as error:
        raise BenchError(f"vLLM {version}: {SERVE_MODULE} cannot be imported: {error}") from error
    problem = unknown_shape(vars(serve))
    if problem:
        raise BenchError(f"vLLM {version}: {SERVE_MODULE}: {problem}; {KNOWN}")
    return version, serve


def unknown_shape(names: Mapping[str, Any]) -> str:
    """What is not as expected among the names of vLLM's benchmark module; empty when all is."""
    for name in ("main", "main_async", "add_cli_args", "get_samples", "benchmark", "SampleRequest"):
        if not callable(names.get(name)):
            return f"no {name}"
    used = getattr(names["main_async"], "__code__", None)
    for name in ("get_samples", "benchmark"):
        if used is None or name not in used.co_names:
            return f"main_async does not call {name}"
    for name, parameters in USED_PARAMETERS.items():
        known = inspect.signature(names[name]).parameters
        missing = [p for p in parameters if p not in known]
        if missing:
            return f"{name} takes no {', '.join(missing)}"
    return ""


def count_errors(errors: Iterable[str], failed: int) -> dict[str, int]:
    """How many requests failed for which reason, the most frequent first.

    A reason is the last line of what vLLM kept (it keeps whole tracebacks), at most 200 characters.
    """
    texts = [text.strip() for text in errors if text and text.strip()]
    reasons = Counter(text.splitlines()[-1].strip()[:ERROR_LENGTH] for text in texts)
    silent = failed - sum(reasons.values())
    if silent > 0:
        reasons["no reason given"] += silent
    return dict(reasons.most_common())


def split_result(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result without arrays but with `error_counts`, and the arrays worth keeping."""
    arrays = {name: result[name] for name in ARRAYS if name in result}
    if "latencies" not in arrays and "itls" in result:
        pairs = zip(result.get("ttfts", ()), result["itls"], strict=False)
        arrays["latencies"] = [ttft + sum(gaps) for ttft, gaps in pairs]
    kept = {k: v for k, v in result.items() if k not in (*ARRAYS, *LONG_ARRAYS)}
    kept["error_counts"] = count_errors(result.get("errors", ()), int(result["failed"]))
    return {k: finite(v) for k, v in kept.items()}, arrays


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(path: Path, text: str) -> None:
    """`text` at `path`, whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def measure(options: argparse.Namespace, bench: list[str]) -> None:
    """Import vLLM while the prompts are made, run at the gate, write the result."""
    gate = Gate(options.gate, options.name)
    gate.check_stop()
    runner = VllmBench(gate, options.warmup_rate)
    args = runner.parse(bench)
    wait_for_prompts(options.prompts, gate)
    runner.warmup, runner.measured = load_prompts(options.prompts, args.num_prompts)
    result = runner.run(args)
    kept, arrays = split_result(result)
    arrays["asked_output_lens"] = [prompt.output_tokens for prompt in runner.measured]
    kept["warmup_requests"] = len(runner.warmup)
    kept["warmup_error_counts"] = runner.warmup_errors
    kept["vllm_version"] = runner.version
    kept["load"] = runner.load
    if options.vllm_bench_json:
        own = {key: finite(value) for key, value in result.items() if key != "generated_texts"}
        options.vllm_bench_json.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(options.vllm_bench_json, json.dumps(own, default=str) + "\n")
    write_text(options.result.with_suffix(".requests.json"), json.dumps(arrays))
    write_text(options.result, json.dumps(kept, indent=1, default=str) + "\n")
    log.info("%d of %d requests done, %s", kept["completed"], args.num_prompts, options.result)


def main(arguments: Sequence[str]) -> int:
    """Exit code; every refusal is one line on stderr."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    options, bench = parse_arguments(arguments)
    try:
        measure(options, bench)
    except GateStopError as stop:
        log.info("%s: %s", options.name, stop)
        return EXIT_STOPPED
    except (BenchError, OSError, ValueError) as error:
        log.error("%s: %s", options.name, error)
        return EXIT_CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
