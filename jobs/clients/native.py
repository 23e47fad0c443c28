"""The native benchmark client: `python -m jobs.clients.native`.

A closed loop of streamed completions over random token ids at a fixed concurrency, held at the
gate until the deployment is ready. Exit status: 0 with a result file (failed requests are in it),
2 for wrong arguments, 3 when told to stop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from jobs.clients.gate import Gate, GateStopError
from jobs.clients.random_prompts import Prompt, PromptMaker
from jobs.clients.stats import Tally, figures
from jobs.clients.streaming import FailedRequestError, complete, measure_lag, open_session
from jobs.progress import progress_told
from jobs.store import write_json

API_KEY_VARIABLE = "OPENAI_API_KEY"
EXIT_STOPPED = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send, and where; ranges are inclusive token counts."""

    base_url: str
    model: str
    concurrency: int
    num_prompts: int
    warmup: int
    input_range: tuple[int, int]
    output_range: tuple[int, int]
    seed: int
    vocab_size: int
    timeout_s: float


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; wrong values end the program with status 2 and a reason."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.clients.native", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("--base-url", required=True, help="http://host:port, without /v1")
    add("--model", required=True)
    add("--gate", type=Path, help="gate folder; without it the client runs at once")
    add("--name", default="native", help="this client's name at the gate")
    add("--result", type=Path, required=True)
    add("--concurrency", type=int, required=True)
    add("--num-prompts", type=int, required=True)
    add("--warmup", type=int, default=0, help="requests before the measurement, other prompts")
    add("--input-range", type=int, nargs=2, metavar=("LO", "HI"), required=True)
    add("--output-range", type=int, nargs=2, metavar=("LO", "HI"), required=True)
    add("--seed", type=int, default=0)
    add("--vocab-size", type=int, required=True, help="ids are drawn below it (ordinary tokens)")
    add("--timeout-s", type=float, default=1800.0, help="longest time one request may take")
    given = parser.parse_args(arguments)
    for name in ("concurrency", "num_prompts", "vocab_size", "timeout_s"):
        if getattr(given, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    for name in ("input_range", "output_range"):
        low, high = getattr(given, name)
        if not 1 <= low <= high:
            parser.error(f"--{name.replace('_', '-')} {low} {high}: need 1 <= LO <= HI")
    if given.warmup < 0:
        parser.error("--warmup must be 0 or more")
    return given


def load_from(given: argparse.Namespace) -> Load:
    """The load the command line describes."""
    return Load(
        base_url=given.base_url.rstrip("/"),
        model=given.model,
        concurrency=given.concurrency,
        num_prompts=given.num_prompts,
        warmup=given.warmup,
        input_range=tuple(given.input_range),
        output_range=tuple(given.output_range),
        seed=given.seed,
        vocab_size=given.vocab_size,
        timeout_s=given.timeout_s,
    )


def make_prompts(load: Load) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to measure with and, drawn after them, different ones to warm up with."""
    maker = PromptMaker(load.seed, load.vocab_size)
    measured = maker.make(load.num_prompts, load.input_range, load.output_range)
    return measured, maker.make(load.warmup, load.input_range, load.output_range)


async def send_all(
    session: aiohttp.ClientSession,
    load: Load,
    prompts: list[Prompt],
    stage: str = "measured",
    tell: Path | None = None,
) -> tuple[Tally, float]:
    """Every prompt sent once, `concurrency` at a time; the tally and the seconds it took.

    `tell` is a file that says meanwhile how far it is.
    """
    tally = Tally()
    waiting = iter(prompts)
    streams = min(load.concurrency, len(prompts))
    with progress_told(tell, stage, len(prompts), tally.so_far):
        begun = time.perf_counter()
        await asyncio.gather(
            *(_stream(session, load.model, waiting, tally) for _ in range(streams))
        )
        return tally, time.perf_counter() - begun


async def _stream(
    session: aiohttp.ClientSession, model: str, waiting: Iterator[Prompt], tally: Tally
) -> None:
    """One of the concurrent streams: the next prompt as soon as the last answer is complete."""
    for prompt in waiting:
        try:
            sent = await complete(session, model, prompt)
        except FailedRequestError as error:
            tally.fail(error.kind, str(error))
        else:
            tally.add(prompt.tokens, prompt.output_tokens, sent.at, sent.chunks)


async def measure(
    load: Load,
    prompts: tuple[list[Prompt], list[Prompt]],
    api_key: str | None,
    tell: Path | None = None,
) -> dict[str, Any]:
    """Warm-up, then the measurement: the result under `vllm bench serve`'s keys."""
    measured, warmup = prompts
    async with open_session(load.base_url, api_key, load.timeout_s) as session:
        warm = (await send_all(session, load, warmup, "warm-up", tell))[0] if warmup else Tally()
        date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        worst = [0.0]
        lag = asyncio.create_task(measure_lag(worst))
        tally, duration_s = await send_all(session, load, measured, tell=tell)
        lag.cancel()
    return {
        "date": date,
        "backend": "native",
        "model_id": load.model,
        "num_prompts": load.num_prompts,
        "request_rate": "inf",
        "max_concurrency": load.concurrency,
        **figures(tally, duration_s),
        "seed": load.seed,
        "warmup_requests": load.warmup,
        "warmup_failed": warm.errors.total(),
        "warmup_errors": warm.error_samples,
        "client_loop_lag_max_ms": worst[0] * 1000.0,
    }


async def run(given: argparse.Namespace, api_key: str | None) -> None:
    """Prepares, waits at the gate, measures, writes; GateStopError when told to stop."""
    load = load_from(given)
    prompts = make_prompts(load)
    if given.gate is None:
        write_json(given.result, await measure(load, prompts, api_key))
        return
    gate = Gate(given.gate, given.name)
    gate.say_ready()
    await gate.wait_for_go()
    measuring = asyncio.create_task(measure(load, prompts, api_key, gate.progress))
    stopping = asyncio.create_task(gate.watch_stop())
    await asyncio.wait({measuring, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (measuring, stopping):
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    if measuring.cancelled():
        stopping.result()
    write_json(given.result, measuring.result())


def main() -> int:
    """The program; its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = parse_arguments(sys.argv[1:])
    try:
        asyncio.run(run(given, os.environ.get(API_KEY_VARIABLE)))
    except GateStopError as stopped:
        log.warning("%s", stopped)
        return EXIT_STOPPED
    log.info("result written to %s", given.result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
