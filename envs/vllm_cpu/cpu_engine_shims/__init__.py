"""What vLLM's CPU build needs to serve in several processes, loaded by vLLM as a general plugin.

Four gaps, each closed only where the running build still has it:
- the CPU communicator has no all_gatherv and reduce_scatterv, so a mixture-of-experts model with
  data parallelism dies on its first batch;
- the CPU expert kernel ignores the expert map, so expert parallelism reads expert ids out of range;
- NIXL's progress thread spins, one core a worker: NIXL_PROGRESS_DELAY_US makes it sleep that many
  microseconds between polls. Not set, nothing changes.
- a worker spins for a second after each message of its engine: ENGINE_PATIENT_WAITS=1 makes it
  pause between looks. Not set, nothing changes.
These make the plumbing run; they say nothing about numerics or speed on a GPU.
"""

from __future__ import annotations

import os

DELAY_VARIABLE = "NIXL_PROGRESS_DELAY_US"
PATIENT_VARIABLE = "ENGINE_PATIENT_WAITS"


def register() -> None:
    """Close the gaps; vLLM calls this once in each of its processes."""
    from cpu_engine_shims import collectives, experts, nixl_delay, waiting  # noqa: PLC0415 (needs vLLM)

    collectives.install()
    experts.install()
    delay = os.environ.get(DELAY_VARIABLE, "")
    if delay:
        nixl_delay.install(int(delay))
    if os.environ.get(PATIENT_VARIABLE) == "1":
        waiting.install()
