"""The native client against servers that are right, broken and hostile."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.clients.answer import CHUNK_SLACK, Answer
from jobs.clients.connection import MAX_QUIET_BYTES
from jobs.clients.sse import MAX_EVENT_BYTES, EventReader, EventTooLargeError
from jobs.clients.target import reached
from jobs.prompts.reader import PromptFile
from tests.patience import PATIENCE_S
from tests.rehearsal_process import free_port
from tests.stream_server import (
    CHUNK,
    DONE,
    HEAD,
    KEPT,
    USAGE,
    WHOLE,
    Reply,
    framed,
    load,
    measured_against,
    prompt_file,
    request_of,
    saying,
    sent_all,
    written,
)


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> PromptFile:
    """Enough requests for any test here."""
    return prompt_file(tmp_path_factory.mktemp("prompts") / "x.prompts", 32)


Counts = Callable[..., dict[str, int]]


@pytest.fixture
def counts(prompts: PromptFile, tmp_path: Path) -> Counts:
    """Failures by kind of some requests to a server; the good ones under ''."""

    def count(reply: Reply, requests: int = 4, **changed: float) -> dict[str, int]:
        measured, _ = measured_against(reply, prompts, requests, tmp_path, **changed)
        good = int(measured.good.sum())
        return measured.errors() | ({"": good} if good else {})

    return count


def test_events_are_found_however_the_stream_is_cut() -> None:
    text = b'\xef\xbb\xbf: ping\r\n\r\ndata: {"a":1}\r\n\r\nevent: x\ndata:two\ndata: lines\n\n'
    text += b"data\n\ndata: [DONE]\r\r"
    wanted = [b'{"a":1}', b"two\nlines", b"", b"[DONE]"]
    for size in range(1, len(text) + 1):
        reader = EventReader()
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        found = [data for piece in pieces for data in reader.feed(piece)]
        assert found + reader.close() == wanted, size


def test_an_event_without_its_blank_line_is_found_at_the_end() -> None:
    reader = EventReader()
    assert reader.feed(b"data: [DONE]") == []
    assert reader.close() == [b"[DONE]"]


@pytest.mark.parametrize("piece", [b"x" * 65536, b"data: " + b"y" * 65536 + b"\n"])
def test_a_line_or_event_without_end_is_refused_before_it_fills_the_memory(piece: bytes) -> None:
    reader = EventReader()
    pieces = itertools.repeat(piece, 2 * MAX_EVENT_BYTES // len(piece))
    with pytest.raises(EventTooLargeError):
        list(map(reader.feed, pieces))


def test_a_good_stream_cut_into_single_bytes_is_good(counts: Counts) -> None:
    whole = HEAD + b": hello\n\n" + WHOLE.replace(b"\n", b"\r\n")
    assert counts(saying(*[whole[i : i + 1] for i in range(len(whole))])) == {"": 4}


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("http_503", b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"),
        ("http_429", b"HTTP/1.1 429 Slow\r\nContent-Length: 999\r\n\r\nslow down"),
        ("http_500", b"HTTP/1.1 500 Oops\r\n\r\n" + b"x" * 100_000),
        ("http_204", b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        ("http_307", HEAD.replace(b"200 OK", b"307 Go\r\nLocation: /x") + DONE),
        ("content_type", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>" + WHOLE),
        ("content_type", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        ("content_encoding", HEAD.replace(b"OK\r\n", b"OK\r\nContent-Encoding: gzip\r\n") + WHOLE),
        ("content_encoding", KEPT.replace(b"chunked", b"gzip, chunked") + framed(WHOLE)[:-5]),
        ("content_encoding", KEPT.replace(b"chunked", b"gzip") + WHOLE),
        ("http_101", b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI"),
        ("bad_http", HEAD.replace(b"OK\r\n", b"OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n")),
        ("bad_http", KEPT.replace(b"OK\r\n", b"OK\r\nContent-Length: 5\r\n") + framed(WHOLE)),
        ("bad_http", KEPT + b"f" * 30 + b"\r\n" + WHOLE),
        ("bad_http", b"\x15\x03\x03\x00\x02\x02\x50"),
        ("bad_http", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("bad_http", KEPT + b"zz\r\n" + WHOLE),
        ("head_too_large", b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * MAX_QUIET_BYTES),
        ("head_too_large", b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 3 * MAX_QUIET_BYTES),
        ("head_too_large", b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_QUIET_BYTES),
        ("head_too_large", KEPT + framed(CHUNK)[:-2] + b"X-A: b\r\n" * MAX_QUIET_BYTES),
        ("no_done", HEAD + CHUNK + CHUNK + USAGE),
        ("no_done", HEAD + CHUNK + CHUNK[:20]),
        ("no_done", KEPT + framed(CHUNK, CHUNK, USAGE)),
        ("no_done", KEPT.replace(b"Transfer-Encoding: chunked", b"Content-Length: 20") + WHOLE),
        ("no_usage", HEAD + CHUNK + CHUNK + DONE),
        ("no_tokens", HEAD + USAGE + DONE),
        ("token_count", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":1') + DONE),
        ("token_count", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":3') + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":-2') + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":"2"') + DONE),
        ("bad_usage", HEAD + CHUNK + b'data: {"usage":[1]}\n\n' + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":2.0') + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":null') + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":9999999999999') + DONE),
        ("bad_usage", HEAD + CHUNK + USAGE.replace(b'_tokens":10', b'_tokens":-1') + DONE),
        ("bad_json", HEAD + CHUNK + USAGE.replace(b'tokens":2', b'tokens":NaN') + DONE),
        ("too_many_chunks", HEAD + CHUNK * (2 + CHUNK_SLACK + 1) + USAGE + DONE),
        ("after_done", HEAD + WHOLE + CHUNK),
        ("after_done", HEAD + WHOLE + DONE),
        ("stream_error", HEAD + CHUNK + b'data: {"object":"error","message":"x"}\n\n' + DONE),
        ("stream_error", HEAD + CHUNK + b'event: error\ndata: {"message":"x"}\n\n' + DONE),
        ("stream_error", HEAD + CHUNK + b'data: {"error":{"message":"x","code":500}}\n\n' + DONE),
        ("stream_error", HEAD + CHUNK.replace(b" a", b' a","finish_reason":"error') + DONE),
        ("bad_event", HEAD + b'data: {"choices":[7]}\n\n' + DONE),
        ("bad_event", HEAD + b'data: {"choices":{"text":1}}\n\n' + DONE),
        ("bad_json", HEAD + b"data: {oops\n\n"),
        ("bad_json", HEAD + b"data: 7\n\n"),
        ("bad_json", HEAD + b'data: {"choices":[{"text":"\xff"}]}\n\n'),
        ("event_too_large", HEAD + b"data: " + b"y" * 2 * MAX_EVENT_BYTES),
        ("disconnected", b""),
        ("disconnected", b"HTTP/1.1 200 OK\r\nContent-Ty"),
        ("no_done", b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + CHUNK),
        ("disconnected", KEPT + framed(CHUNK, CHUNK, USAGE, DONE)[:-5]),
        ("disconnected", HEAD.replace(b"Connection: close", b"Content-Length: 999") + CHUNK),
    ],
)
def test_every_failure_is_counted_with_its_kind(
    kind: str, reply: bytes, prompts: PromptFile, tmp_path: Path
) -> None:
    measured, streams = measured_against(saying(reply), prompts, 4, tmp_path)
    assert measured.errors() == {kind: 4}
    assert not measured.good.any()
    assert (streams.log.done, streams.log.failed, streams.log.tokens) == (4, 4, 0)
    assert measured.samples.keys() == {kind}


ODD = CHUNK.replace(b" a", " é中😀".encode())
EXTENDED = b"".join(b'%x;a="b";c\r\n%b\r\n' % (len(p), p) for p in (WHOLE, b""))


@pytest.mark.parametrize(
    "said",
    [
        KEPT + EXTENDED,
        KEPT + framed(WHOLE)[:-2] + b"X-Trailer: 1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + KEPT + framed(WHOLE),
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + WHOLE,
        HEAD.replace(b"text/event-stream", b"Text/Event-Stream; charset=UTF-8") + WHOLE,
        HEAD + b"\xef\xbb\xbf" + WHOLE.replace(b"data: ", b"data:"),
        HEAD + ODD + ODD + USAGE + DONE,
        HEAD + CHUNK + CHUNK.replace(b"}]}", b"}]," + USAGE[20:-2] + b"\n\n") + DONE,
        (KEPT + framed(WHOLE)) * 2,
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_what_http_and_events_allow_is_good_however_it_is_cut(
    said: bytes, size: int, counts: Counts
) -> None:
    pieces = [said[i : i + size] for i in range(0, len(said), size)]
    assert counts(saying(*pieces), 1) == {"": 1}


def test_a_kept_connection_closed_before_a_byte_of_the_next_answer_is_a_kind_of_its_own(
    counts: Counts,
) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(KEPT + framed(WHOLE))
        await request_of(reader)

    assert counts(reply, 4, concurrency=1) == {"": 2, "kept_closed": 2}


def test_a_line_of_a_gigabyte_is_given_up_after_the_first_megabytes(counts: Counts) -> None:
    written_bytes = 0

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written_bytes
        await request_of(reader)
        writer.write(HEAD + b"data: ")
        for _ in range(1024):
            writer.write(b"y" * 2**20)
            written_bytes += 2**20
            await writer.drain()

    assert counts(reply, 1) == {"event_too_large": 1}
    assert written_bytes < 16 * MAX_EVENT_BYTES


@pytest.mark.parametrize("said", [b"", HEAD, HEAD + CHUNK, b"HTTP/1.1 200"])
def test_a_silent_server_is_a_stall_and_nothing_hangs(said: bytes, counts: Counts) -> None:
    got = counts(saying(said, pause_s=3600), 2, stall_timeout_s=0.3)
    assert got == {"timeout_stall": 2}


def test_a_status_is_told_also_when_its_body_stalls(counts: Counts) -> None:
    said = b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nno"
    assert counts(saying(said, pause_s=3600), 2, stall_timeout_s=2.0) == {"http_503": 2}


def test_a_server_that_only_pings_ends_by_the_total_time(counts: Counts) -> None:
    pings = [b": ping\n\n"] * 1000
    got = counts(saying(HEAD, *pings, pause_s=0.02), 2, timeout_s=0.4)
    assert got == {"timeout_total": 2}


def test_a_reset_is_told_from_an_end(counts: Counts) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(HEAD + CHUNK)
        await writer.drain()
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    assert counts(reply, 2) == {"reset": 2}


def test_a_port_nobody_listens_on_is_a_connect_failure(prompts: PromptFile, tmp_path: Path) -> None:
    url = f"http://127.0.0.10:{free_port('127.0.0.10')}"
    streams = asyncio.run(sent_all(load(url), prompts, 4))
    assert written(streams, tmp_path).errors() == {"connect": 4}


def test_a_name_without_an_address_fails_each_request_and_ends(
    prompts: PromptFile, tmp_path: Path
) -> None:
    streams = asyncio.run(sent_all(load("http://no-such-host.invalid:80"), prompts, 4))
    assert written(streams, tmp_path).errors() == {"dns": 4}


def test_of_several_addresses_the_first_that_answers_is_taken() -> None:
    async def go() -> str:
        async with await asyncio.start_server(lambda _, w: w.close(), "127.0.0.11", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await reached(["127.0.0.10", "127.0.0.11"], port, load("http://x"))

    assert asyncio.run(go()) == "127.0.0.11"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_connected_to_and_named_in_brackets(
    prompts: PromptFile, tmp_path: Path
) -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await request_of(reader))[0])
        writer.write(HEAD + WHOLE)
        writer.close()

    async def go() -> dict[str, int]:
        async with await asyncio.start_server(serve, "::1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            streams = await sent_all(load(f"http://[::1]:{port}"), prompts, 2)
            assert all(f"Host: [::1]:{port}".encode() in head for head in heads)
            return written(streams, tmp_path).errors()

    assert asyncio.run(go()) == {}
    assert len(heads) == 2


def test_a_server_without_tls_is_a_tls_failure(prompts: PromptFile, tmp_path: Path) -> None:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def go() -> dict[str, int]:
        async with await asyncio.start_server(serve, "127.0.0.10", 0) as server:
            port = server.sockets[0].getsockname()[1]
            streams = await sent_all(load(f"https://127.0.0.10:{port}"), prompts, 2)
            return written(streams, tmp_path).errors()

    assert asyncio.run(go()) == {"tls": 2}


def test_one_connection_carries_request_after_request(counts: Counts) -> None:
    connections = 0

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            head, body = await request_of(reader)
            assert b"Authorization: Bearer test-key" in head
            assert json.loads(body)["max_tokens"] == 2
            writer.write(
                b"HTTP/1.1 100 Continue\r\n\r\n" + KEPT + framed(CHUNK, CHUNK, USAGE, DONE)
            )
            await writer.drain()

    assert counts(reply, 23) == {"": 23}
    assert connections == 2


def test_a_server_that_ends_each_connection_is_served_by_new_ones(counts: Counts) -> None:
    said = KEPT.replace(b"Transfer", b"Connection: close\r\nTransfer") + framed(WHOLE)
    assert counts(saying(said), 6) == {"": 6}


def test_bytes_nobody_asked_for_end_the_connection_and_spoil_no_later_request(
    counts: Counts,
) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(KEPT + framed(WHOLE) + b"HTTP/1.1 200 OK\r\n\r\nmore")
        await asyncio.sleep(0.2)

    assert counts(reply, 4) == {"": 4}


def test_concurrency_is_never_exceeded_and_is_reached(counts: Counts) -> None:
    now, peak = 0, 0
    reached = asyncio.Event()

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, peak
        while True:
            await request_of(reader)
            now += 1
            peak = max(peak, now)
            if now >= 5:
                reached.set()
            await asyncio.wait_for(reached.wait(), PATIENCE_S)
            await asyncio.sleep(0.02)
            now -= 1
            writer.write(KEPT + framed(WHOLE))

    assert counts(reply, 23, concurrency=5) == {"": 23}
    assert peak == 5


def test_times_are_those_of_the_bytes_and_tokens_those_of_the_server(tmp_path: Path) -> None:
    usage = CHUNK.replace(b"]}", b'],"usage":{"prompt_tokens":10,"completion_tokens":%d}}')
    pieces = [HEAD, usage % 3, usage % 4, USAGE.replace(b'tokens":2', b'tokens":4') + DONE]
    prompts = prompt_file(tmp_path / "x.prompts", 1, output_range=(4, 4))
    measured, _ = measured_against(saying(*pieces, pause_s=0.1), prompts, 1, tmp_path)
    columns = measured.columns
    assert measured.good.all()
    assert measured.chunk_tokens.tolist() == [3, 1]
    first, second = (measured.chunk_us / 1e6).tolist()
    assert 0.1 <= first <= columns["first_s"][0] - columns["sent_s"][0] + 1e-5
    assert second - first >= 0.09
    assert columns["end_s"][0] - columns["last_s"][0] >= 0.09
    assert 0 <= columns["late_s"][0] < 60


def test_the_role_alone_is_no_first_token() -> None:
    answer = Answer(2)
    answer.take(b'{"choices":[{"delta":{"role":"assistant","content":""}}]}', 1.0)
    answer.take(b'{"choices":[{"delta":{"role":"assistant","content":"a"}}]}', 2.0)
    answer.take(b'{"choices":[{"delta":{"content":""},"finish_reason":"length"}]}', 3.0)
    assert list(answer.times) == [2.0, 3.0]


def test_without_ignore_eos_a_shorter_answer_is_good_and_a_longer_one_is_not() -> None:
    for made, kind in ((1, None), (2, None), (3, "token_count")):
        answer = Answer(2)
        answer.take(b'{"choices":[{"text":"a"}]}', 1.0)
        answer.take(b'{"choices":[],"usage":{"completion_tokens":%d}}' % made, 1.0)
        answer.take(b"[DONE]", 1.0)
        why = answer.verdict(exact=False)
        assert (why.kind if why else None) == kind
