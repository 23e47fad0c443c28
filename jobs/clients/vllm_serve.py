"""vLLM's own benchmark, run with prompts made beforehand, a warm-up of its own and a gate."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import io
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.clients.vllm_gate import Gate, RequestCounter
from jobs.clients.vllm_module import KNOWN, SERVE_MODULE, BenchError, load_serve
from jobs.clients.vllm_result import count_errors
from jobs.prompts.reader import PromptFile, PromptFileError

# Owned here: vLLM's parser gets these after the caller's words, so these win.
OWNED = ("--dataset-name", "custom", "--num-warmups", "0", "--ready-check-timeout-sec", "0")

log = logging.getLogger("vllm_bench")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: its text, its length as the server counts it, and how many tokens to answer."""

    text: str
    tokens: int
    output_tokens: int


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
        tokens = sum(prompt.tokens + prompt.output_tokens for prompt in self.measured)
        counter = RequestCounter(self.gate, len(self.measured), tokens)
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
