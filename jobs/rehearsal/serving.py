"""One rehearsal process from start-up to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from jobs.rehearsal.api import VERSION, build_app
from jobs.rehearsal.engine import Engine
from jobs.rehearsal.joining import Endpoint, JoinError, is_leader, join, must_join
from jobs.rehearsal.options import Options
from jobs.rehearsal.ranks import Rank, new_rank
from jobs.rehearsal.side_channel import StateStore, listen

BANNER = "REHEARSAL ENGINE: no model, no results"
HTTP_BACKLOG = 4096
SHUTDOWN_S = 1.0

log = logging.getLogger(__name__)


async def serve(options: Options) -> int:
    """Runs until SIGTERM, SIGINT or a fault; the exit status.

    1 when a port is taken or another process of the endpoint is missing or lost: the log says
    which.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, (lambda: None) if options.faults.deaf else stop.set)
    log.info(BANNER)
    if options.faults.exit_at_s is not None:
        loop.call_later(options.faults.exit_at_s, _die, options.faults.exit_code)
    if options.faults.flood_mb is not None:
        threading.Thread(target=_flood, args=(options.faults.flood_mb,), daemon=True).start()
    runner: web.AppRunner | None = None
    channels: list[asyncio.Server] = []
    try:
        ranks = [_local_rank(options, number) for number in options.local_ranks]
        engine = Engine(options, ranks)
        if not options.headless:
            runner = web.AppRunner(
                build_app(engine),
                access_log=None,
                handler_cancellation=True,
                shutdown_timeout=SHUTDOWN_S,
            )
            await runner.setup()
        lost = await _or_stop(stop, _start(options, engine, runner, channels))
        if lost is None:
            return 0
        stopping = asyncio.ensure_future(stop.wait())
        waits: set[asyncio.Future[Any]] = {lost, stopping}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if lost.done() and not stop.is_set():
            raise JoinError(lost.result())
        return 0
    except (OSError, JoinError) as error:
        log.error("rehearsal: %s", error)
        return 1
    finally:
        for channel in channels:
            channel.close()
        if runner is not None:
            await runner.cleanup()


async def _start(
    options: Options,
    engine: Engine,
    runner: web.AppRunner | None,
    channels: list[asyncio.Server],
) -> asyncio.Future[str]:
    """Loads (it says), opens the side `channels`, joins, listens; what ends when a peer is lost."""
    await _imitate_load(options)
    for rank in engine.ranks:
        listens = rank.nixl_port is not None and not options.faults.no_side_channel
        if listens and rank.nixl_port is not None and rank.store is not None:
            channels.append(await listen(rank.store, rank.nixl_host, rank.nixl_port))
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    if must_join(options) and is_leader(options):
        endpoint = Endpoint(options)
        engine.ranks += await endpoint.gather()
        lost = endpoint.lost
    elif must_join(options):
        lost = await join(options)
    if runner is not None:
        site = web.TCPSite(runner, options.host, options.port, backlog=HTTP_BACKLOG)
        await site.start()
        if options.faults.refuse_at_s is not None:
            asyncio.get_running_loop().call_later(options.faults.refuse_at_s, _refuse, site)
        log.info("Starting vLLM server on http://%s:%d", options.host, options.port)
        log.info("Application startup complete.")
    return lost


async def _or_stop(
    stop: asyncio.Event, start: Coroutine[None, None, asyncio.Future[str]]
) -> asyncio.Future[str] | None:
    """The result of `start`, or None when told to stop first."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        return starting.result()
    starting.cancel()
    return None


async def _imitate_load(options: Options) -> None:
    """vLLM's start-up lines, spread over `start_s`."""
    step = options.start_s / 3
    names = "shards" if options.dp_local == 1 else f"shards on {options.dp_local} ranks"
    log.info("Initializing a V1 LLM engine (v%s) with config: model=%r", VERSION, options.model)
    log.info("Starting to load model %s...", options.model)
    await asyncio.sleep(step)
    if options.faults.stuck:
        await asyncio.Event().wait()
    log.info("Loading weights took %.2f seconds (imitated, %s)", step, names)
    log.info("Model loading took 0.0 GiB memory and %.6f seconds", step)
    await asyncio.sleep(step)
    log.info("Available KV cache memory: 0.0 GiB")
    log.info("GPU KV cache size: %s tokens", f"{options.kv_tokens:,}")
    log.info("Capturing CUDA graphs (imitated)")
    await asyncio.sleep(step)
    log.info("init engine (profile, create kv cache, warmup model) took %.2f s", 2 * step)


def _local_rank(options: Options, number: int) -> Rank:
    port = None if options.nixl_base is None else options.nixl_base + number
    return new_rank(options, number, options.nixl_host, port, StateStore())


def _die(code: int) -> None:
    """The end --fail exit asks for: at once, without any tidying."""
    log.error("exiting with status %d because --fail asked for it", code)
    logging.shutdown()
    os._exit(code)


_stopping: set[asyncio.Task[None]] = set()


def _refuse(site: web.TCPSite) -> None:
    """The listener goes, open connections and the process stay."""
    log.error("not listening any more because --fail refuse asked for it")
    _stopping.add(asyncio.ensure_future(site.stop()))


def _flood(mb_per_minute: float) -> None:
    """Lines at the asked pace, for as long as the process lives."""
    line = "flood asked for by --fail flood: " + "x" * 167
    lines_per_s = mb_per_minute * 1e6 / 60 / (len(line) + 1)
    while True:
        sys.stdout.write((line + "\n") * max(1, int(lines_per_s / 10)))
        sys.stdout.flush()
        time.sleep(0.1)
