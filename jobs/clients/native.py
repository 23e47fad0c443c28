"""The native benchmark client: `python -m jobs.clients.native`.

Sends the requests of a prompt file as streamed completions or chats, in a closed loop at a fixed
concurrency or when they are due, from as many processes as the load needs; held at the gate until
the deployment is ready. The API key comes from OPENAI_API_KEY only. Exit status: 0 with a result
file (failed requests are in it), 1 when a process of the client died, 2 for wrong arguments or
prompts, 3 when told to stop. docs/load-client.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs.clients.arguments import load_from, metadata_from, parse_arguments
from jobs.clients.bodies import Bodies
from jobs.clients.figures import Limits, figures, other_prompts, own_load, window
from jobs.clients.gate import POLL_S, Gate, GateStopError
from jobs.clients.load import Load
from jobs.clients.measuring import Outcome, measure
from jobs.clients.merged import Measured
from jobs.clients.processes import ProcessLostError, process_count
from jobs.clients.request_table import write_requests
from jobs.clients.vllm_json import vllm_result
from jobs.errors import JobError
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import id_pieces
from jobs.prompts.random_source import random_requests
from jobs.prompts.reader import PromptFile, write_prompt_file
from jobs.prompts.spec import Spec
from jobs.store import write_json, write_text

EXIT_LOST = 1
EXIT_CANNOT = 2
EXIT_STOPPED = 3

log = logging.getLogger(__name__)


def make_prompts(given: argparse.Namespace, path: Path) -> None:
    """A prompt file of random token ids, for use without a prompt file."""
    spec = Spec(
        count=given.num_prompts,
        warmup=given.warmup,
        input_range=tuple(given.input_range),
        output_range=tuple(given.output_range),
        seed=given.seed,
    )
    spec.check()
    pieces = id_pieces(given.vocab_size)
    write_prompt_file(path, random_requests(spec, pieces), pieces, {"source": "random"})


def result(load: Load, prompts: PromptFile, outcome: Outcome, limits: Limits) -> dict[str, Any]:
    """The result file's object: `vllm bench serve`'s keys where it has them, and our own."""
    warmup_errors: dict[str, str] = {}
    for said in outcome.warmup:
        warmup_errors |= said["errors"]
    timed = load.request_rate is not None or prompts.arrival_s is not None
    return {
        "date": outcome.date,
        "backend": "native",
        "model_id": load.model,
        "num_prompts": prompts.count,
        "request_rate": load.request_rate if load.request_rate is not None else "inf",
        "burstiness": load.burstiness,
        "max_concurrency": load.concurrency,
        **figures(outcome.measured, prompts.prompt_tokens, limits),
        "seed": load.seed,
        "warmup_requests": prompts.warmup,
        "warmup_failed": sum(said["failed"] for said in outcome.warmup),
        "warmup_errors": warmup_errors,
        "window": window(outcome.measured, prompts.output_tokens, 0 if timed else load.concurrency)
        | counted_otherwise(outcome.measured, prompts),
        "load": own_load(outcome.measured),
    }


def counted_otherwise(measured: Measured, prompts: PromptFile) -> dict[str, int | None]:
    """Prompts that the server counted otherwise than the file: told here, judged by analysis."""
    found = other_prompts(measured, prompts.prompt_tokens, prompts.turn)
    if found["other_prompts"]:
        log.warning(
            "the server counted another length than the prompt file in %d prompts (%d tokens in "
            "all): its tokenizer or chat template is not the one the prompts were made with",
            found["other_prompts"],
            found["other_prompt_tokens"],
        )
    return found


async def run(given: argparse.Namespace) -> None:
    """Prepares, waits at the gate, measures, writes."""
    load = load_from(given)
    gate = Gate(given.gate, given.name) if given.gate else None
    limits = Limits(ttft_ms=given.goodput_ttft_ms, tpot_ms=given.goodput_tpot_ms)
    with tempfile.TemporaryDirectory(prefix="native-prompts-") as folder:
        path = given.prompts or Path(folder) / "made.prompts"
        if given.prompts is None:
            make_prompts(given, path)
        await _there(path, gate)
        prompts = PromptFile.open(path)
        load = load.with_prompts(path)
        Bodies(load, prompts, None)  # what it cannot do is told before the gate
        if not load.concurrency and load.request_rate is None and prompts.arrival_s is None:
            raise JobError("--concurrency 0: a closed loop needs at least 1, or --request-rate")
        processes = process_count(given.processes, load, len(os.sched_getaffinity(0)))
        outcome = await _unless_stopped(load, prompts, processes, gate)
        more = metadata_from(given)
        if given.requests:
            write_requests(given.requests, outcome.measured, prompts)
        if given.vllm_bench_json:
            counts = prompts.prompt_tokens
            data = more | vllm_result(load, outcome.measured, counts, outcome.date, limits)
            given.vllm_bench_json.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text(given.vllm_bench_json, json.dumps(data) + "\n")
        given.result.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(given.result, more | result(load, prompts, outcome, limits))


async def _there(path: Path, gate: Gate | None) -> None:
    """Returns once the prompt file is there; whoever makes it renames it there whole."""
    while gate is not None and not path.exists():
        gate.check_stop()
        await asyncio.sleep(POLL_S)


async def _unless_stopped(
    load: Load, prompts: PromptFile, processes: int, gate: Gate | None
) -> Outcome:
    """What `measure` gives; GateStopError as soon as the gate says stop."""
    measuring = asyncio.create_task(measure(load, prompts, processes, gate))
    if gate is None:
        return await measuring
    stopping = asyncio.create_task(gate.watch_stop())
    await asyncio.wait({measuring, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (measuring, stopping):
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    if measuring.cancelled():
        stopping.result()
    return measuring.result()


def main(arguments: Sequence[str]) -> int:
    """The program; its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = parse_arguments(arguments)
    try:
        asyncio.run(run(given))
    except GateStopError as stopped:
        log.warning("%s", stopped)
        return EXIT_STOPPED
    except (PromptError, JobError) as error:
        log.error("%s", error)
        return EXIT_CANNOT
    except (ProcessLostError, OSError) as error:
        log.error("%s", error)
        return EXIT_LOST
    log.info("result written to %s", given.result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
