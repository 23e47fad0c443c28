"""The bottleneck of a point, proved on stand-in engines that have it, and on made-up looks."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest

from analysis.bottleneck import bottleneck
from jobs.engines.vllm_series import ENGINE_SERIES
from jobs.records import BenchPoint, ClientLoad, Latency, Station, Stations
from jobs.rehearsal.engine import Engine
from jobs.rehearsal.exposition import metrics_text
from jobs.rehearsal.model import State
from jobs.rehearsal.options import Options
from jobs.rehearsal.ranks import Visit, new_rank
from jobs.rehearsal.requests import read_ask
from jobs.rehearsal.side_channel import StateStore
from jobs.series_page import SeriesPage
from jobs.stations import Look, sum_up
from tests.analysis_runs import point
from tests.virtual_clock import Clock, at_once

STREAMS = 8
ISL, OSL = 100, 20
LOAD_S = 3.0
LOOK_S = 0.0201
FETCH_S = 0.001
HOST = "127.0.0.1"


def measured(concurrency: int = STREAMS, **changes: Any) -> BenchPoint:
    """A point whose streams were all busy all the time."""
    whole = point(concurrency=concurrency, completed=100, num_prompts=100, duration_s=10.0)
    return replace(whole, e2el_ms=Latency(mean=concurrency * 100.0), **changes)


def engine_of(role: str, port: int, **options: Any) -> Engine:
    own = Options(role=role, host=HOST, port=0, model="m", nixl_base=port, **options)
    return Engine(own, [new_rank(own, 0, HOST, port, StateStore())])


async def send(prefill: Engine, decode: Engine, seed: int) -> None:
    """One request as the router sends it: prefill with one token, then decode."""
    prompt = [seed * 1000 + place for place in range(ISL)]
    ask = {"prompt": prompt, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
    first = read_ask(ask, False, 4096)
    rank = prefill.ranks[0]
    with Visit(rank, ISL + 1) as visit:
        state = await prefill.read_prompt(first, visit)
        assert [batch async for batch in prefill.answer(first, rank, state)]
        kv = await prefill.hand_over(first, visit, str(seed))
    second = read_ask(
        {"prompt": prompt, "max_tokens": OSL, "ignore_eos": True, "kv_transfer_params": kv},
        False,
        4096,
    )
    rank = decode.ranks[0]
    with Visit(rank, ISL + OSL) as visit:
        state = await decode.read_prompt(second, visit)
        async for _ in decode.answer(second, rank, state):
            pass


def looks_under_load(
    monkeypatch: pytest.MonkeyPatch, prefill_options: Any, decode_options: Any
) -> list[Look]:
    """What a closed loop of 8 streams looks like on the engines' own metrics pages."""

    async def look(clock: Clock) -> list[Look]:
        for module in ("engine", "ranks", "side_channel"):
            monkeypatch.setattr(f"jobs.rehearsal.{module}.time", clock)
        prefill = engine_of("prefill", 1, **prefill_options)
        decode = engine_of("decode", 2, **decode_options)
        store = prefill.ranks[0].store
        assert store is not None

        async def fetch(_host: str, _port: int, request_id: str) -> tuple[State, int]:
            """As the side channel does it, without a socket: those have no clock of ours."""
            await asyncio.sleep(FETCH_S)
            held = store.take(request_id)
            assert held is not None
            return held.state, held.tokens

        monkeypatch.setattr("jobs.rehearsal.engine.fetch", fetch)

        async def stream(number: int) -> None:
            for seed in itertools.count(number, STREAMS):
                await send(prefill, decode, seed)

        streams = [asyncio.create_task(stream(number)) for number in range(STREAMS)]
        page, looks = SeriesPage(ENGINE_SERIES), []
        while clock.now < LOAD_S:
            await asyncio.sleep(LOOK_S)
            for engine in (prefill, decode):
                role = engine.options.role
                found = page.read(metrics_text(engine.ranks, "m", role, "v"))["0"]
                looks.append(Look(clock.now, f"{role}0", role, 0, found))
        for task in streams:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        return looks

    return at_once(look)


SLOW_PREFILL = {"prefill_tps": 2000.0}
"""50 ms a prompt, of which decode's 20 tokens take 20 ms: seven of eight streams wait for it."""

TRUTHS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "slow prefill": (SLOW_PREFILL, {}, "prefill", "requests waiting"),
    "room for two requests' KV": (
        {},
        {"decode_kv_tokens": 2 * (ISL + OSL), "decode_tps": 100.0},
        "decode-kv",
        "decode KV 100% used",
    ),
    "room for two and a half": (
        {},
        {"decode_kv_tokens": 5 * (ISL + OSL) // 2, "decode_tps": 100.0},
        "decode-kv",
        "no room for another request",
    ),
    "two seats in the batch": (
        {},
        {"decode_max_seqs": 2, "decode_tps": 100.0},
        "decode-compute",
        "its batch is full",
    ),
    "slow steps": ({}, {"decode_rank_tps": 100.0}, "decode-compute", "run in decode"),
    "slow link": ({}, {"transfer_mbps": 1000.0}, "transfer", "wait for KV under way"),
}


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_stand_in_that_has_a_bottleneck_is_found_to_have_it(
    truth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill, decode, word, said = TRUTHS[truth]
    looks = looks_under_load(monkeypatch, prefill, decode)
    found = bottleneck(measured(), sum_up(looks))
    assert (found.word, said in found.evidence) == (word, True), found.evidence


def test_backpressure_of_a_full_decode_is_not_taken_for_a_slow_prefill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prefill's blocks stay until decode fetches them, so requests wait there too: idle."""
    full = {"decode_kv_tokens": ISL + OSL, "decode_tps": 100.0}
    looks = looks_under_load(monkeypatch, {}, full)
    found = bottleneck(measured(), sum_up(looks))
    assert found.word == "decode-kv", found.evidence
    assert "prefill idle" in found.evidence


def station(**changes: Any) -> Station:
    """40 looks at two ranks with nothing to do."""
    told: dict[str, Any] = {
        "running": 0.0, "waiting": 0.0, "fetching": 0.0, "busy_share": 0.0, "queued_share": 0.0,
        "kv_usage": 0.01, "kv_usage_p90": 0.02, "preemptions": 0.0, "cpu": 0.1, "answer_ms": 8.0,
    }  # fmt: skip
    return Station(ranks=2, looks=40, **(told | changes))


def seen(**changes: Any) -> Stations:
    told: dict[str, Any] = {"prefill": station(), "decode": station()}
    return Stations(span_s=60.0, **(told | changes))


def test_requests_that_are_in_no_engine_are_the_front_ends_or_the_clients() -> None:
    hot = seen(decode=station(cpu=0.97, cpu_process="decode0"))
    found = bottleneck(measured(), hot)
    assert found.word == "frontend"
    assert "8 of 8 requests are in no engine; the API server of decode0 uses 0.97" in found.evidence

    assert bottleneck(measured(), seen(prefill=station(answer_ms=900.0))).word == "frontend"
    assert bottleneck(measured(), seen(router_active=7.5)).word == "frontend"
    assert bottleneck(measured(), seen(router_active=0.5)).word == "client"

    busy = measured(load=ClientLoad(client_cpu_share=0.99))
    assert bottleneck(busy, seen(router_active=7.5)).word == "client"


def test_where_nobody_tells_who_has_them_it_stays_unknown_and_says_so() -> None:
    found = bottleneck(measured(), seen())
    assert found.word == ""
    assert found.evidence.startswith("unknown: nothing is saturated: prefill idle 100%")
    assert "8 of 8 in no engine" in found.evidence


def test_of_two_that_are_saturated_the_one_with_more_requests_is_named() -> None:
    prefill = station(running=2.0, waiting=40.0, busy_share=1.0, queued_share=1.0)
    decode = station(
        running=200.0, waiting=58.0, busy_share=1.0, queued_share=1.0, kv_usage_p90=0.99
    )
    both = seen(prefill=prefill, decode=decode)
    assert bottleneck(measured(300), both).word == "decode-kv"
    less = seen(prefill=prefill, decode=replace(decode, waiting=3.0))
    found = bottleneck(measured(245), less)
    assert found.word == "prefill"
    assert "3 waiting" in found.evidence


def test_an_aggregated_engine_tells_a_full_pool_but_not_whose_compute_it_is() -> None:
    own = station(running=30.0, waiting=30.0, busy_share=1.0, queued_share=1.0)
    alone = Stations(span_s=60.0, aggregated=own)
    assert bottleneck(measured(60), alone).word == ""
    full = Stations(span_s=60.0, aggregated=replace(own, kv_usage_p90=0.97))
    assert bottleneck(measured(60), full).word == "decode-kv"


def test_too_few_looks_and_none_at_all_are_unknown() -> None:
    few = seen(decode=replace(station(running=8.0, busy_share=1.0), looks=6))
    assert bottleneck(measured(), few).evidence.startswith(
        "unknown: too few looks: 3 at each decode"
    )
    assert bottleneck(measured(), None).evidence.startswith("unknown: nothing was sampled")


def test_ramp_up_and_drain_are_no_part_of_the_steady_span() -> None:
    held = [0, 1, 8, 8, 7, 8, 7, 5, 2, 0]
    looks = [
        Look(float(t), "decode0", "decode", 0, {"running": float(n), "waiting": 0.0})
        for t, n in enumerate(held)
    ]
    found = sum_up(looks)
    assert found is not None
    assert found.span_s == 4.0
    assert found.decode is not None
    assert (found.decode.looks, found.decode.running) == (5, 7.6)
    assert sum_up(looks[:1]) is None


def one_step_prefill(busy: float, together: float, seconds: int = 60) -> list[Look]:
    """A look a second at a prefill rank whose requests come and go within a step (vLLM's gauge
    then says 0), `together` in each, and at a decode rank that runs one request."""
    looks = []
    for t in range(seconds + 1):
        ended = 0.5 * t
        numbers: dict[str, float | None] = {
            "running": 0.0, "waiting": 0.0, "finished": ended, "queued": ended,
            "steps": ended / together, "prefill_s": busy * together * t,
        }  # fmt: skip
        looks.append(Look(float(t), "prefill0", "prefill", 0, numbers))
        looks.append(Look(float(t), "decode0", "decode", 0, {"running": 1.0, "waiting": 0.0}))
    return looks


def test_a_busy_prefill_whose_gauge_says_0_is_known_by_its_counters() -> None:
    found = sum_up(one_step_prefill(busy=0.95, together=4.0))
    assert found is not None
    assert found.prefill is not None
    assert found.prefill.running == pytest.approx(3.8)
    assert found.prefill.busy_share == pytest.approx(0.95)
    said = bottleneck(measured(concurrency=6), found)
    assert said.word == "prefill", said.evidence
    assert "prefill busy 95% of the time, 63% there" in said.evidence


def test_the_figures_of_a_real_prefill_are_not_taken_for_a_front_ends() -> None:
    """vLLM 0.32.0 on a CPU, 4 streams: 20 requests in 11 steps, 1.606 in prefill on average; its
    gauge never said anything but 0, and the router counted each of them twice."""
    looks = one_step_prefill(busy=1.606 * 11 / 20, together=20 / 11)
    router: dict[str, float | None] = {
        "prefill_active": 2.24, "decode_pending": 2.24, "decode_active": 1.3,
    }  # fmt: skip
    looks += [Look(t + 0.5, "router", "router", None, router) for t in range(60)]
    found = sum_up(looks)
    assert found is not None
    assert found.router_active == pytest.approx(3.54)
    said = bottleneck(measured(concurrency=4), found)
    assert said.word == ""
    assert "prefill idle 12%, 1.61 running" in said.evidence


def test_requests_that_no_gauge_shows_are_seen_by_those_that_ended() -> None:
    """Prompts with one token of output leave decode within a step too."""
    looks = [
        replace(look, numbers={**look.numbers, "running": 0.0})
        for look in one_step_prefill(0.97, 1.0)
    ]
    found = sum_up(looks)
    assert found is not None
    assert found.span_s == 60.0
    assert bottleneck(measured(concurrency=1), found).word == "prefill"


def test_a_log_that_says_0_of_a_prefill_at_work_proves_nothing() -> None:
    looks = []
    for t in range(0, 100, 10):
        prefill: dict[str, float | None] = {"running": 0.0, "waiting": 0.0, "computed_tps": 900.0}
        looks.append(Look(float(t), "prefill0", "prefill", 0, prefill))
        looks.append(Look(float(t), "decode0", "decode", 0, {"running": 1.0, "waiting": 0.0}))
    looks.append(
        Look(50.0, "router", "router", None, {"prefill_active": 7.0, "decode_active": 1.0})
    )
    said = bottleneck(measured(), sum_up(looks, "log"))
    assert said.word == ""
    assert "prefill idle ?, ? running" in said.evidence
