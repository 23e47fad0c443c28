"""The rehearsal engine: vLLM's protocol, alone and behind the real router."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.rehearsal.faults import FaultError, Faults, parse_fault
from jobs.rehearsal.model import VOCAB_SIZE, State, candidates, next_token, token_text, tokenize
from jobs.rehearsal.side_channel import StateStore
from tests.patience import wait_until
from tests.rehearsal_process import (
    KEY,
    MODEL,
    free_port,
    metric,
    post,
    rehearsal_command,
    router,
    running,
    worker,
)

PREFILL_HOST, DECODE_HOST = "127.0.0.7", "127.0.0.8"
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


@dataclass(frozen=True)
class Pair:
    """A prefill worker of two ranks, the second half of a four-rank decode endpoint, a router."""

    prefill: str
    decode: str
    router: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    logs = tmp_path_factory.mktemp("pair")
    p_base, d_base = free_port(PREFILL_HOST, 2), free_port(DECODE_HOST, 4)
    p_args = ["--role", "prefill", "--dp", "2", "--nixl-base", str(p_base)]
    d_args = ["--role", "decode", "--dp", "4", "--dp-start", "2", "--nixl-base", str(d_base)]
    with (
        worker(logs / "p.log", PREFILL_HOST, *p_args) as prefill,
        worker(logs / "d.log", DECODE_HOST, *d_args, "--dp-local", "2") as decode,
        router(
            logs / "r.log", "--vllm-pd-disaggregation", "--prefill", prefill, "--decode", decode
        ) as url,
    ):
        yield Pair(prefill, decode, url)


def ask(prompt: Any, tokens: int = 8, **more: Any) -> dict[str, Any]:
    """A greedy completion request with the top 20."""
    fixed = {"model": MODEL, "temperature": 0, "ignore_eos": True, "logprobs": 20}
    return {**fixed, "return_token_ids": True, "prompt": prompt, "max_tokens": tokens, **more}


def choice(url: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    status, text = post(url, "/v1/completions", body, **headers)
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)["choices"][0]
    return found


def prefilled(url: str, prompt: list[int], **headers: str) -> dict[str, Any]:
    body = ask(prompt, 1, min_tokens=1, kv_transfer_params=REMOTE_DECODE)
    status, text = post(url, "/v1/completions", body, **headers)
    assert status == 200, text
    params: dict[str, Any] = json.loads(text)["kv_transfer_params"]
    return params


def draw(seed: int, count: int = 40) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(VOCAB_SIZE) for _ in range(count)]


def test_a_state_read_token_by_token_equals_one_read_at_once() -> None:
    tokens = draw(1)
    state = State()
    for token in tokens:
        state = state.after([token])
    assert state == State().after(tokens) == State.from_hex(state.to_hex())


def test_the_candidates_are_distinct_and_sorted_and_begin_with_the_next_token() -> None:
    state = State().after(draw(2))
    top = candidates(state)
    assert len({token for token, _ in top}) == 20
    assert [p for _, p in top] == sorted((p for _, p in top), reverse=True)
    assert top[0][0] == next_token(state) != next_token(state, ":7")


def test_every_token_has_its_own_text() -> None:
    assert len({token_text(t) for t in range(VOCAB_SIZE)}) == VOCAB_SIZE


def test_faults_are_read_and_a_wrong_one_lists_what_is_allowed() -> None:
    assert parse_fault("exit:3@0.5") == Faults(exit_code=3, exit_at_s=0.5)
    assert parse_fault("hang@5").hang_at_s == 5
    assert parse_fault("kvfail@2").kvfail_from == 2
    assert parse_fault("badstate").badstate_from == 1
    with pytest.raises(FaultError, match="allowed are exit:CODE@SECONDS"):
        parse_fault("explode")


def test_a_state_nobody_fetches_expires_and_is_counted() -> None:
    store = StateStore(lease_s=0.0)
    store.put("a", State(), 3)
    assert store.take("a") is None
    assert store.expired == 1


def test_the_matched_form_holds_exactly_with_all_logprobs(pair: Pair) -> None:
    for seed in range(8):
        prompt = draw(seed)
        alone = choice(pair.decode, ask(prompt, 9))
        longer = [*prompt, alone["token_ids"][0]]
        params = prefilled(pair.prefill, longer)
        moved = choice(pair.decode, ask(longer, 8, kv_transfer_params=params))
        assert moved["token_ids"] == alone["token_ids"][1:]
        assert moved["logprobs"]["top_logprobs"] == alone["logprobs"]["top_logprobs"][1:]


def test_another_prompts_state_changes_the_answer(pair: Pair) -> None:
    right = draw(11)
    other = [*draw(12, len(right) - 1), right[-1]]
    params = prefilled(pair.prefill, other)
    moved = choice(pair.decode, ask(right, kv_transfer_params=params))
    alone = choice(pair.decode, ask(right))
    first, wrong = (c["logprobs"]["top_logprobs"][0] for c in (alone, moved))
    assert len(set(first) & set(wrong)) <= 5
    assert alone["token_ids"][0] != moved["token_ids"][0]


def test_an_unreachable_side_channel_is_a_failed_transfer(pair: Pair) -> None:
    params = prefilled(pair.prefill, draw(13)) | {"remote_port": free_port(PREFILL_HOST)}
    before = metric(pair.decode, "nixl_num_failed_transfers_total")
    status, text = post(pair.decode, "/v1/completions", ask(draw(13), kv_transfer_params=params))
    assert status == 500
    assert b"handshake_setup_failed" in text
    assert metric(pair.decode, "nixl_num_failed_transfers_total") == before + 1


def test_a_state_can_be_fetched_only_once(pair: Pair) -> None:
    body = ask(draw(14), kv_transfer_params=prefilled(pair.prefill, draw(14)))
    assert post(pair.decode, "/v1/completions", body)[0] == 200
    assert post(pair.decode, "/v1/completions", body)[0] == 500


def test_incomplete_transfer_parameters_are_ignored_as_in_vllm(pair: Pair) -> None:
    before = metric(pair.decode, 'source="external_kv_transfer"')
    lame = {"do_remote_prefill": True, "remote_host": None}
    answer = choice(pair.decode, ask(draw(15), kv_transfer_params=lame))
    assert answer["token_ids"] == choice(pair.decode, ask(draw(15)))["token_ids"]
    assert metric(pair.decode, 'source="external_kv_transfer"') == before


def test_the_counters_tell_what_was_moved_and_what_was_computed(pair: Pair) -> None:
    names = ['source="external_kv_transfer"', 'source="local_compute"', "nixl_bytes_transferred_s"]
    before = [metric(pair.decode, n, "3") for n in names]
    prefill_before = metric(pair.prefill, "prompt_tokens_total", "1")
    params = prefilled(pair.prefill, draw(16, 50), X_data_parallel_rank="1")
    choice(pair.decode, ask(draw(16, 50), kv_transfer_params=params), X_data_parallel_rank="1")
    moved = [metric(pair.decode, n, "3") - b for n, b in zip(names, before, strict=True)]
    assert moved[:2] == [49, 1]
    assert moved[2] > 0
    assert metric(pair.prefill, "prompt_tokens_total", "1") == prefill_before + 49
    assert metric(pair.decode, "num_requests_running") == 0
    assert metric(pair.decode, "num_requests_waiting") == 0


def test_the_rank_header_counts_local_ranks_and_a_wrong_one_is_a_bad_request(pair: Pair) -> None:
    status, text = post(pair.decode, "/v1/completions", ask([1]), X_data_parallel_rank="2")
    assert status == 400
    assert b"out of range [0, 2)" in text


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_wrong_or_missing_key_is_refused(pair: Pair, path: str) -> None:
    assert post(pair.decode, path, ask([1]), key="wrong")[0] == 401
    assert post(pair.decode, path, ask([1]), key=None)[0] == 401


def test_bad_requests_say_what_is_wrong(pair: Pair) -> None:
    for body, words in [
        (ask([]), b"non-empty list"),
        (ask([-1]), b"whole numbers"),
        (ask([1], 0), b"max_tokens"),
        (ask([1], 10**9), b"maximum context length"),
    ]:
        status, text = post(pair.decode, "/v1/completions", body)
        assert status == 400
        assert words in text
    assert post(pair.decode, "/v1/completions", ask([1], model="other"))[0] == 404


def test_it_says_everywhere_that_it_is_a_rehearsal(pair: Pair) -> None:
    with urllib.request.urlopen(f"{pair.decode}/version", timeout=120) as response:
        assert json.load(response)["version"].startswith("rehearsal-")
        assert response.headers["x-rehearsal"] == "true"
    assert metric(pair.decode, "rehearsal_info") == 1


def test_log_probabilities_are_keyed_by_token_id_when_asked(pair: Pair) -> None:
    answer = choice(pair.decode, ask([1, 2], 2, return_tokens_as_token_ids=True))
    assert answer["logprobs"]["tokens"] == [f"token_id:{t}" for t in answer["token_ids"]]
    assert len(answer["logprobs"]["top_logprobs"][0]) == 20


def test_tokenize_agrees_with_the_usage_of_a_completion(pair: Pair) -> None:
    text = "Ein Zug fährt um acht."
    counted = json.loads(post(pair.decode, "/tokenize", {"model": MODEL, "prompt": text})[1])
    answer = json.loads(post(pair.decode, "/v1/completions", ask(text))[1])
    assert counted["count"] == len(counted["tokens"]) == answer["usage"]["prompt_tokens"]
    assert counted["tokens"] == tokenize(text)


def test_the_real_router_gives_the_same_answer_as_the_decode_worker_alone(pair: Pair) -> None:
    before = metric(pair.decode, "nixl_xfer_time_seconds_count")
    for seed in range(4):
        through = choice(pair.router, ask(draw(seed + 20)))
        assert through["token_ids"] == choice(pair.decode, ask(draw(seed + 20)))["token_ids"]
    assert metric(pair.decode, "nixl_xfer_time_seconds_count") == before + 4
    for engine in ("2", "3"):
        assert metric(pair.decode, "nixl_xfer_time_seconds_count", engine) > 0


@pytest.mark.parametrize("chat", [False, True])
def test_a_stream_through_the_real_router_ends_with_usage_and_done(pair: Pair, chat: bool) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    body = ask("hello", 5, **options)
    if chat:
        body |= {"messages": [{"role": "user", "content": "hi"}], "logprobs": True}
    path = "/v1/chat/completions" if chat else "/v1/completions"
    status, text = post(pair.router, path, body)
    events = [line[6:] for line in text.decode().splitlines() if line.startswith("data: ")]
    assert (status, events[-1]) == (200, "[DONE]")
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 5
    assert json.loads(events[-3])["choices"][0]["finish_reason"] == "length"
    assert len(events) == 7


def test_an_aggregated_worker_serves_behind_the_real_router(tmp_path: Path) -> None:
    with (
        worker(tmp_path / "a.log", "127.0.0.7", "--role", "aggregated", "--dp", "2") as url,
        router(
            tmp_path / "r.log", "--worker-urls", url, "--intra-node-data-parallel-size", "2"
        ) as front,
    ):
        for _ in range(4):
            assert choice(front, ask([5, 6, 7])) == choice(url, ask([5, 6, 7]))
        for engine in ("0", "1"):
            assert metric(url, "generation_tokens_total", engine) > 0


def test_a_leader_serves_the_ranks_of_its_headless_process(tmp_path: Path) -> None:
    base, rpc = free_port("127.0.0.7", 4), str(free_port("127.0.0.7"))
    meet = ["--dp", "4", "--dp-local", "2", "--nixl-base", str(base)]
    meet += ["--rpc-address", "127.0.0.7", "--rpc-port", rpc, "--role", "prefill"]
    headless = ["--headless", "--dp-start", "2", "--host", "127.0.0.6"]
    with (
        running(rehearsal_command(*headless, *meet), tmp_path / "h.log") as other,
        worker(tmp_path / "l.log", "127.0.0.7", *meet) as leader,
        worker(tmp_path / "d.log", "127.0.0.8", "--role", "decode") as decode,
    ):
        params = prefilled(leader, draw(3), X_data_parallel_rank="3")
        assert (params["remote_host"], params["remote_port"]) == ("127.0.0.6", base + 3)
        moved = choice(decode, ask(draw(3), kv_transfer_params=params))
        assert moved["token_ids"] == choice(decode, ask(draw(3)))["token_ids"]
        assert metric(leader, "prompt_tokens_total", "3") == 39
        other.send_signal(signal.SIGTERM)
        assert other.wait(120) == 0
        log = tmp_path / "l.log"
        wait_until(lambda: "went away" in log.read_text(), "the leader ends with its ranks")


def test_a_process_that_is_asked_to_fail_exits_with_that_status(tmp_path: Path) -> None:
    command = rehearsal_command("--role", "decode", "--headless", "--fail", "exit:7@0.1")
    with running(command, tmp_path / "x.log") as process:
        assert process.wait(120) == 7
    assert "REHEARSAL ENGINE: no model, no results" in (tmp_path / "x.log").read_text()


def test_sigterm_ends_it_with_status_zero_even_while_it_loads(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    with running(rehearsal_command("--role", "decode", "--start-s", "60"), log) as process:
        wait_until(lambda: "Starting to load model" in log.read_text(), "it loads")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def test_it_ends_in_silence_while_others_are_connected_to_its_side_channel(tmp_path: Path) -> None:
    log, base = tmp_path / "x.log", free_port("127.0.0.7")
    with worker(log, "127.0.0.7", "--role", "prefill", "--nixl-base", str(base)):
        peers = [socket.create_connection(("127.0.0.7", base), 60) for _ in range(8)]
        assert all(peer.recv(1) for peer in peers)
    for peer in peers:
        peer.close()
    assert not [line for line in log.read_text().splitlines() if "ERROR" in line or "Error" in line]


def test_a_taken_port_is_an_error_that_names_it(tmp_path: Path, pair: Pair) -> None:
    host, port = pair.decode.removeprefix("http://").split(":")
    command = rehearsal_command("--role", "decode", "--host", host, "--port", port)
    with running(command, tmp_path / "x.log") as process:
        assert process.wait(120) == 1
    assert port in (tmp_path / "x.log").read_text()


def hangs(url: str) -> bool:
    """Whether a connection is taken and no answer comes."""
    try:
        urllib.request.urlopen(url, timeout=1.0).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


def test_a_hanging_worker_answers_nothing_but_still_ends_on_sigterm(tmp_path: Path) -> None:
    port = free_port("127.0.0.7")
    command = rehearsal_command("--role", "decode", "--host", "127.0.0.7", "--port", str(port))
    log = tmp_path / "x.log"
    with running([*command, "--fail", "hang@1"], log) as process:
        wait_until(lambda: hangs(f"http://127.0.0.7:{port}/health"), "it hangs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


@pytest.mark.parametrize("fault", ["kvfail", "badstate"])
def test_a_spoilt_transfer_shows_as_the_fault_says(tmp_path: Path, pair: Pair, fault: str) -> None:
    args = ["--role", "decode", "--fail", fault]
    with worker(tmp_path / "x.log", "127.0.0.8", *args) as decode:
        params = prefilled(pair.prefill, draw(30))
        body = ask(draw(30), kv_transfer_params=params)
        if fault == "kvfail":
            status, text = post(decode, "/v1/completions", body | {"stream": True})
            assert status == 200
            assert b'"error"' in text
            assert metric(decode, "nixl_num_failed_transfers_total") == 1
        else:
            assert choice(decode, body)["token_ids"] != choice(decode, ask(draw(30)))["token_ids"]


def test_wrong_ranks_are_refused_at_the_command_line() -> None:
    command = rehearsal_command("--role", "decode", "--dp", "4", "--dp-start", "3")
    done = subprocess.run(
        [*command, "--dp-local", "2"], capture_output=True, text=True, check=False, cwd="."
    )
    assert done.returncode == 2
    assert "do not fit" in done.stderr
    assert KEY not in done.stderr
