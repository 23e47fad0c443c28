"""Looking at metrics pages during a run: what does not answer leaves a gap and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from jobs.engines.vllm_series import ENGINE_SERIES, ROUTER_SERIES
from jobs.events import Journal
from jobs.probing import AskError, Http
from jobs.sampling import MOST_LOOKS, Sampler, Target, every_second
from jobs.series_page import SeriesPage
from jobs.stations import Look
from tests.virtual_clock import Clock, at_once

HOST = "127.0.0.1"
PAGE = 'vllm:num_requests_running{engine="0"} 4.0\nvllm:num_requests_running{engine="1"} 5.0\n'
PAGE_S = 0.1
"""What a slow page takes; 5 % of the time allow one every 2 s."""

Page = Callable[[int], Coroutine[Any, Any, str]]
"""The answer to the n-th question, counted from 0."""


async def good(_: int) -> str:
    return PAGE


async def fails(_: int) -> str:
    raise AskError("500")


async def hangs(_: int) -> str:
    await asyncio.sleep(3600)
    return PAGE


async def late(_: int) -> str:
    await asyncio.sleep(PAGE_S)
    return PAGE


async def busy(number: int) -> str:
    """The first page comes at once, those after it wait in front of a busy process."""
    await asyncio.sleep(PAGE_S if number else 0.0)
    return PAGE


class Pages(Http):
    """Answers by the last part of the address."""

    def __init__(self, **pages: Page) -> None:
        super().__init__("key")
        self._pages, self.asked = pages, Counter[str]()

    async def text(self, url: str, timeout_s: float = 5.0) -> str:
        name = url.rpartition("/")[2]
        self.asked[name] += 1
        try:
            return await asyncio.wait_for(self._pages[name](self.asked[name] - 1), timeout_s)
        except TimeoutError as error:
            raise AskError("no answer") from error


def target(name: str, port: int = 1) -> Target:
    return Target(name, "decode", f"http://{HOST}:{port}/{name}", SeriesPage(ENGINE_SERIES), [4, 5])


def sampled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, every_s: float, **pages: Page
) -> list[Target]:
    """What was looked at in `seconds` on a clock of the test's own."""
    targets = [target(name) for name in pages]

    async def look(clock: Clock) -> list[Target]:
        monkeypatch.setattr("jobs.sampling.time", clock)
        journal = Journal(folder / "events.jsonl")
        sampler = Sampler(targets, every_s, folder, Pages(**pages), journal)
        async with sampler.sampling():
            sampler.begin_point()
            await asyncio.sleep(seconds)
            stations = sampler.sum_up()
        assert every_s == 0 or stations is not None or "decode0" not in pages
        return targets

    return at_once(look)


def rows(folder: Path, name: str) -> list[list[float | None]]:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("[")]


def test_one_that_hangs_or_fails_leaves_a_gap_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sampled(tmp_path, monkeypatch, 30.01, 1.0, decode0=good, hangs=hangs, fails=fails)
    assert [(one.name, one.looks, one.missed) for one in found] == [
        ("decode0", 31, 0),
        ("hangs", 3, 2),  # 10 s of patience and 0.1 s of rest each, the third under way
        ("fails", 30, 30),
    ]
    assert len({row[0] for row in rows(tmp_path, "decode0")}) == 31
    assert rows(tmp_path, "hangs") == rows(tmp_path, "fails") == []
    event = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert event["event"] == "series"
    assert event["gaps"] == {"hangs": 2, "fails": 30}


def test_ranks_counted_from_0_by_a_hybrid_balancer_get_their_global_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled(tmp_path, monkeypatch, 1.0, 1.0, decode0=good)
    running = len(("t", "rank", "answer_s", "cpu_s", "memory_bytes"))
    told = {row[1]: row[running] for row in rows(tmp_path, "decode0") if row[1] is not None}
    assert told == {4: 4, 5: 5}


def test_a_page_that_takes_long_is_asked_for_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = sampled(tmp_path, monkeypatch, 9.9, 0.05, late=late)
    assert found.looks == 5, "at 0, 2, 4, 6 and 8 s"


def test_one_that_is_only_busy_is_asked_as_often_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first page was quick: what takes long now is what stands in front of the question."""
    (found,) = sampled(tmp_path, monkeypatch, 9.95, 1.0, busy=busy)
    assert found.looks == 10


def test_no_interval_means_no_looks_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = sampled(tmp_path, monkeypatch, 60.0, 0.0, decode0=good)
    assert found.looks == 0
    assert list(tmp_path.iterdir()) == []


def test_a_page_over_http_is_looked_at_and_an_error_is_a_gap(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, status=500 if request.path == "/fails" else 200)

    async def look() -> list[Target]:
        app = web.Application()
        app.router.add_get("/{any:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        port = int(runner.addresses[0][1])
        both = [target("decode0", port), target("fails", port)]
        async with Http("key") as http, asyncio.timeout(60):
            sampler = Sampler(both, 0.05, tmp_path, http, Journal(tmp_path / "events.jsonl"))
            async with sampler.sampling():
                while min(one.looks for one in both) < 3:
                    await asyncio.sleep(0.01)
        await runner.cleanup()
        return both

    page, error = asyncio.run(look())
    assert (page.missed, error.missed >= 2) == (0, True)
    assert rows(tmp_path, "decode0")
    assert rows(tmp_path, "fails") == []


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
