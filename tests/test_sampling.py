"""Looking at metrics pages during a run: what does not answer leaves a gap and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from jobs.engines.vllm_series import ENGINE_SERIES, ROUTER_SERIES
from jobs.events import Journal
from jobs.probing import Http
from jobs.sampling import MOST_LOOKS, Sampler, Target, every_second
from jobs.series_page import SeriesPage
from jobs.stations import Look

HOST = "127.0.0.1"
SEEN: web.AppKey[list[str]] = web.AppKey("seen")
PAGE = 'vllm:num_requests_running{engine="0"} 4.0\nvllm:num_requests_running{engine="1"} 5.0\n'


async def serve(handler: Any) -> tuple[web.AppRunner, int]:
    app = web.Application()
    app[SEEN] = []
    app.router.add_get("/{any:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    return runner, int(runner.addresses[0][1])


async def answers(request: web.Request) -> web.Response:
    """By path: a page, a late page, an error, nothing."""
    if request.path.startswith("/hangs"):
        await asyncio.Event().wait()
    if request.path.startswith("/late"):
        await asyncio.sleep(0.1)
    if request.path.startswith("/busy") and request.app[SEEN]:
        await asyncio.sleep(0.1)
    request.app[SEEN].append(request.path)
    status = 500 if request.path.startswith("/fails") else 200
    return web.Response(text=PAGE, status=status)


async def sampled(folder: Path, names: list[str], seconds: float, every_s: float) -> list[Target]:
    runner, port = await serve(answers)
    page = SeriesPage(ENGINE_SERIES)
    targets = [
        Target(name, "decode", f"http://{HOST}:{port}/{name}", page, [4, 5]) for name in names
    ]
    async with Http("key") as http:
        sampler = Sampler(targets, every_s, folder, http, Journal(folder / "events.jsonl"))
        async with sampler.sampling():
            sampler.begin_point()
            await asyncio.sleep(seconds)
            stations = sampler.sum_up()
    await runner.cleanup()
    assert every_s == 0 or stations is not None
    return targets


def rows(folder: Path, name: str) -> list[list[float | None]]:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("[")]


def test_one_that_hangs_or_fails_leaves_a_gap_and_delays_no_other(tmp_path: Path) -> None:
    names = ["decode0", "hangs", "fails"]
    good, hung, failed = asyncio.run(sampled(tmp_path, names, 1.5, 0.05))
    assert good.missed == 0
    assert good.looks > 1
    assert (hung.looks, rows(tmp_path, "hangs")) == (1, [])
    assert failed.missed == failed.looks > 1
    event = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert event["event"] == "series"
    assert event["gaps"] == {"fails": failed.missed}


def test_ranks_counted_from_0_by_a_hybrid_balancer_get_their_global_numbers(tmp_path: Path) -> None:
    asyncio.run(sampled(tmp_path, ["decode0"], 0.2, 0.1))
    running = len(("t", "rank", "answer_s", "cpu_s", "memory_bytes"))
    told = {row[1]: row[running] for row in rows(tmp_path, "decode0") if row[1] is not None}
    assert told == {4: 4, 5: 5}


def test_a_page_that_takes_long_is_asked_for_more_rarely(tmp_path: Path) -> None:
    """0.1 s a page may be 5 % of the time: not again before 2 s have passed."""
    (late,) = asyncio.run(sampled(tmp_path, ["late"], 0.7, 0.05))
    assert late.looks == 1


def test_one_that_is_only_busy_is_asked_as_often_as_ever(tmp_path: Path) -> None:
    """Its first page was quick: what takes long now is what stands in front of the question."""
    (busy,) = asyncio.run(sampled(tmp_path, ["busy"], 1.5, 0.05))
    assert busy.looks > 3


def test_no_interval_means_no_looks_and_no_files(tmp_path: Path) -> None:
    (target,) = asyncio.run(sampled(tmp_path, ["decode0"], 0.05, 0.0))
    assert target.looks == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_of_a_point_is_thinned_for_every_process_alike() -> None:
    looks = [
        Look(float(t) + place / 10, name, "decode", rank, {})
        for t in range(MOST_LOOKS // 100)
        for place, name in enumerate(("a", "b"))
        for rank in (0, 1)
    ]
    half = every_second(looks)
    assert len(half) == len(looks) // 2
    assert {look.process for look in half} == {"a", "b"}
    assert {look.rank for look in half} == {0, 1}


def test_the_routers_requests_are_summed_over_its_workers() -> None:
    page = (
        'vllm_router_pd_active_decode_requests{worker="http://a:1",rank="aggregate"} 3\n'
        'vllm_router_pd_active_decode_requests{worker="http://b:1",rank="aggregate"} 4\n'
        'vllm_router_pd_active_decode_requests{worker="http://b:1",rank="0"} 4\n'
    )
    assert SeriesPage(ROUTER_SERIES).read(page) == {"": {"decode_active": 7.0}}
