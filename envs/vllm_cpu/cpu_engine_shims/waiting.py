"""vLLM's shared-memory queues, polled with a pause instead of without one."""

from __future__ import annotations

import time

from vllm.distributed.device_communicators import shm_broadcast

PAUSE_S = 0.0005


def install() -> None:
    """Sleep where readers and writers of a queue would only yield the core.

    After each message a reader polls for a second. With more engines than cores that keeps NIXL's
    progress thread off the core, and transfers wait for tens of seconds until their lease runs out.
    """
    shm_broadcast.sched_yield = lambda: time.sleep(PAUSE_S)
