"""The native benchmark client: its parts, and the program against real and broken servers."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from jobs.clients.native import Load, make_prompts, measure, parse_arguments
from jobs.clients.random_prompts import PromptMaker
from jobs.clients.sse import EventReader
from jobs.clients.stats import Tally, figures
from jobs.clients.streaming import body_of
from tests.rehearsal_process import KEY, MODEL, free_port, metric, router, running, worker

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNK = b'data: {"choices":[{"index":0,"text":" a"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def load(base_url: str, **changed: Any) -> Load:
    """A small load of two-token answers."""
    given: dict[str, Any] = {
        "base_url": base_url,
        "model": MODEL,
        "concurrency": 2,
        "num_prompts": 4,
        "warmup": 0,
        "input_range": (10, 10),
        "output_range": (2, 2),
        "seed": 1,
        "vocab_size": 1000,
        "timeout_s": 5.0,
    }
    return Load(**(given | changed))


def measured_against(reply: Reply, **changed: Any) -> dict[str, Any]:
    """The client's result against a server that answers every request with `reply`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            await reply(writer)
            await writer.drain()

    async def go() -> dict[str, Any]:
        server = await asyncio.start_server(serve, "127.0.0.10", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            wanted = load(f"http://127.0.0.10:{port}", **changed)
            return await measure(wanted, make_prompts(wanted), KEY)

    return asyncio.run(go())


def saying(*pieces: bytes, pause_s: float = 0.0) -> Reply:
    """A reply of these pieces, written one by one."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return reply


def test_events_are_found_however_the_stream_is_cut() -> None:
    text = b': ping\r\n\r\ndata: {"a":1}\r\n\r\nevent: x\ndata:two\ndata: lines\n\ndata: [DONE]\r\r'
    wanted = [b'{"a":1}', b"two\nlines", b"[DONE]"]
    for size in range(1, len(text) + 1):
        reader = EventReader()
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        found = [data for piece in pieces for data in reader.feed(piece)]
        assert found + reader.close() == wanted, size


def test_an_event_without_its_blank_line_is_found_at_the_end() -> None:
    reader = EventReader()
    assert reader.feed(b"data: [DONE]") == []
    assert reader.close() == [b"[DONE]"]


def test_prompts_depend_on_the_seed_alone_and_share_no_prefix() -> None:
    first = PromptMaker(7, 5000).make(50, (300, 400), (5, 9))
    again = PromptMaker(7, 5000).make(50, (300, 400), (5, 9))
    assert [p.ids() for p in first] == [p.ids() for p in again]
    assert PromptMaker(8, 5000).make(1, (300, 400), (5, 9))[0].ids() != first[0].ids()
    assert len({p.ids()[:30] for p in first}) == 50
    for prompt in first:
        ids = [int(i) for i in prompt.ids().split(",")]
        assert len(ids) == prompt.tokens
        assert 300 <= prompt.tokens <= 400
        assert 5 <= prompt.output_tokens <= 9
        assert 0 <= min(ids) <= max(ids) < 5000


def test_the_seeds_prompts_are_the_same_on_every_machine() -> None:
    prompt = PromptMaker(42, 248_000).make(1, (8, 8), (3, 3))[0]
    assert prompt.ids() == GOLDEN


GOLDEN = "181877,41266,36972,5350,35328,239517,216434,116141"


def test_both_ends_of_a_range_are_drawn() -> None:
    made = PromptMaker(1, 100).make(400, (3, 5), (1, 2))
    assert {p.tokens for p in made} == {3, 4, 5}
    assert {p.output_tokens for p in made} == {1, 2}


def test_warm_up_prompts_are_different_ones() -> None:
    measured, warmup = make_prompts(load("http://x", warmup=4))
    assert not {p.ids() for p in measured} & {p.ids() for p in warmup}


def test_the_request_body_is_json_that_asks_for_exactly_the_tokens_wanted() -> None:
    prompt = PromptMaker(1, 100).make(1, (3, 3), (7, 7))[0]
    body = json.loads(body_of(prompt, 'odd "name"'))
    assert body["model"] == 'odd "name"'
    assert len(body["prompt"]) == 3
    assert (body["max_tokens"], body["ignore_eos"], body["temperature"]) == (7, True, 0.0)
    assert body["stream_options"] == {"include_usage": True}


def test_figures_are_those_of_vllm_bench_serve() -> None:
    tally = Tally()
    tally.add(100, 3, 0.0, array("d", [0.1, 0.2, 0.4]))
    tally.add(200, 2, 1.0, array("d", [1.3, 1.4]))
    tally.fail("http_500", "boom")
    got = figures(tally, 2.0)
    assert (got["completed"], got["failed"]) == (2, 1)
    assert (got["total_input_tokens"], got["total_output_tokens"]) == (300, 5)
    assert got["output_throughput"] == 2.5
    assert got["total_token_throughput"] == 152.5
    assert got["mean_ttft_ms"] == pytest.approx(200)
    assert got["p90_ttft_ms"] == pytest.approx(280)
    assert got["mean_tpot_ms"] == pytest.approx((150 + 100) / 2)
    assert got["median_itl_ms"] == pytest.approx(100)
    assert got["mean_e2el_ms"] == pytest.approx(400)
    assert got["error_counts"] == {"http_500": 1}


def test_what_was_not_measured_is_none_and_never_zero() -> None:
    tally = Tally()
    tally.add(10, 8, 0.0, array("d", [0.5]))
    got = figures(tally, 1.0)
    assert got["mean_tpot_ms"] is got["p99_itl_ms"] is None
    assert got["mean_ttft_ms"] == pytest.approx(500)
    assert figures(Tally(), 1.0)["mean_ttft_ms"] is None


def test_a_good_stream_cut_into_single_bytes_is_good() -> None:
    whole = HEAD + b": hello\n\n" + (CHUNK + CHUNK + USAGE + DONE).replace(b"\n", b"\r\n")
    got = measured_against(saying(*[whole[i : i + 1] for i in range(len(whole))]))
    assert (got["completed"], got["failed"]) == (4, 0)
    assert (got["total_input_tokens"], got["total_output_tokens"]) == (40, 8)


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("http_503", b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"),
        ("http_307", HEAD.replace(b"200 OK", b"307 Go\r\nLocation: /x") + DONE),
        ("no_done", HEAD + CHUNK + CHUNK + USAGE),
        ("no_usage", HEAD + CHUNK + CHUNK + DONE),
        ("no_usage", HEAD + USAGE + DONE),
        ("token_count", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":1') + DONE),
        ("stream_error", HEAD + CHUNK + b'data: {"error":{"message":"x","code":500}}\n\n' + DONE),
        ("bad_json", HEAD + b"data: {oops\n\n"),
        ("bad_json", HEAD + b"data: 7\n\n"),
        ("disconnected", b""),
        ("disconnected", HEAD.replace(b"Connection: close", b"Content-Length: 999") + CHUNK),
    ],
)
def test_every_failure_is_counted_with_its_kind(kind: str, reply: bytes) -> None:
    got = measured_against(saying(reply))
    assert got["error_counts"] == {kind: 4}
    assert (got["completed"], got["failed"]) == (0, 4)
    assert got["total_input_tokens"] == 0
    assert got["error_samples"].keys() == {kind}


def test_a_silent_server_is_a_timeout_and_nothing_hangs() -> None:
    begun = time.monotonic()
    got = measured_against(saying(HEAD, CHUNK, pause_s=30), timeout_s=0.4, num_prompts=2)
    assert sum(got["error_counts"].values()) == 2
    assert set(got["error_counts"]) <= {"timeout_read", "timeout_total"}
    assert time.monotonic() - begun < 5


def test_a_port_nobody_listens_on_is_a_connect_failure() -> None:
    wanted = load(f"http://127.0.0.10:{free_port('127.0.0.10')}")
    got = asyncio.run(measure(wanted, make_prompts(wanted), KEY))
    assert got["error_counts"] == {"connect": 4}


def test_concurrency_is_never_exceeded_and_is_reached() -> None:
    now, peak = 0, 0

    async def reply(writer: asyncio.StreamWriter) -> None:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await asyncio.sleep(0.02)
        writer.write(HEAD + CHUNK + CHUNK + USAGE + DONE)
        now -= 1

    got = measured_against(reply, concurrency=5, num_prompts=23)
    assert (got["completed"], peak) == (23, 5)


def test_wrong_arguments_end_with_status_2() -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_arguments([*arguments("http://x", Path("r.json")), "--input-range", "9", "3"])
    assert stopped.value.code == 2


def arguments(base_url: str, result: Path) -> list[str]:
    given = f"--base-url {base_url} --model {MODEL} --name c8 --concurrency 8 --num-prompts 40"
    given += " --warmup 8 --input-range 50 90 --output-range 3 12 --seed 5 --vocab-size 30000"
    return [*given.split(), "--timeout-s", "20", "--result", str(result)]


def client(url: str, folder: Path, *more: str) -> AbstractContextManager[Any]:
    """The program as a child process with its gate in `folder`."""
    command = [sys.executable, "-m", "jobs.clients.native", *arguments(url, folder / "c8.json")]
    command += ["--gate", str(folder), *more]
    return running(command, folder / "c8.log", OPENAI_API_KEY=KEY)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 15
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The router's URL in front of a prefill and a decode worker, and the latter's."""
    logs = tmp_path_factory.mktemp("pair")
    nixl = ["--nixl-base", str(free_port("127.0.0.7"))]
    with (
        worker(logs / "p.log", "127.0.0.7", "--role", "prefill", *nixl) as prefill,
        worker(logs / "d.log", "127.0.0.8", "--role", "decode", "--dp", "2") as decode,
        router(
            logs / "r.log", "--vllm-pd-disaggregation", "--prefill", prefill, "--decode", decode
        ) as url,
    ):
        yield url, decode


def test_the_program_waits_at_the_gate_then_measures_through_the_real_router(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    url, decode = pair
    before = metric(decode, "generation_tokens_total")
    with client(url, tmp_path) as process:
        wait_for(tmp_path / "c8.ready")
        time.sleep(0.2)
        assert metric(decode, "generation_tokens_total") == before
        (tmp_path / "c8.go").touch()
        assert process.wait(30) == 0, (tmp_path / "c8.log").read_text()
    got = json.loads((tmp_path / "c8.json").read_text())
    assert (got["completed"], got["failed"], got["warmup_failed"]) == (40, 0, 0)
    assert got["duration"] > 0
    assert got["median_itl_ms"] is not None
    made = metric(decode, "generation_tokens_total") - before
    assert 8 * 3 <= made - got["total_output_tokens"] <= 8 * 12
    assert metric(decode, "nixl_num_failed_transfers_total") == 0
    assert KEY not in (tmp_path / "c8.log").read_text()


@pytest.mark.parametrize("started", [False, True])
def test_a_stop_file_ends_the_program_with_status_3_and_no_result(
    pair: tuple[str, str], tmp_path: Path, started: bool
) -> None:
    with client(pair[0], tmp_path, "--output-range", "50000", "50000") as process:
        wait_for(tmp_path / "c8.ready")
        if started:
            (tmp_path / "c8.go").touch()
            time.sleep(0.3)
        (tmp_path / "c8.stop").touch()
        assert process.wait(10) == 3
    assert not (tmp_path / "c8.json").exists()
