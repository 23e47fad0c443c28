"""One measurement from start to end: processes ready, held at the gate, warm-up, the requests."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.clients.conversations import turns_of
from jobs.clients.gate import Gate
from jobs.clients.load import Load
from jobs.clients.merged import Measured, read_all
from jobs.clients.processes import crew
from jobs.progress import progress_told
from jobs.prompts.reader import PromptFile


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a measurement left, and how its warm-up went."""

    measured: Measured
    warmup: list[dict[str, Any]]
    date: str


async def measure(
    load: Load, prompts: PromptFile, processes: int, gate: Gate | None = None
) -> Outcome:
    """Ready, held at the gate, warm-up, measurement. ProcessLostError, GateStopError."""
    jobs = [len(turns_of(prompts, part)) for part in _parts(prompts)]
    tell = gate.progress if gate else None
    with tempfile.TemporaryDirectory(prefix="native-") as folder:
        async with crew(load, (jobs[0], jobs[1]), processes, Path(folder)) as workers:
            await workers.ready()
            if gate is not None:
                gate.say_ready()
                await gate.wait_for_go()
            await workers.connect()
            with progress_told(tell, "warm-up", prompts.warmup, workers.so_far):
                warmup = await workers.warm_up() if prompts.warmup else []
            workers.begin_anew()
            date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
            with progress_told(tell, "measured", prompts.count, workers.so_far):
                await workers.measure()
        return Outcome(read_all(workers.outs), warmup, date)


def _parts(prompts: PromptFile) -> tuple[range, range]:
    return range(prompts.warmup), range(prompts.warmup, len(prompts))
