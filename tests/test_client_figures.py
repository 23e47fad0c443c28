"""The native client's figures: the field's definitions, exact, whatever the number of processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jobs.clients.answer import Answer
from jobs.clients.bodies import Bodies
from jobs.clients.connection import Exchange
from jobs.clients.conversations import turns_of
from jobs.clients.failure import failure
from jobs.clients.figures import Limits, figures, other_prompts, own_load, window
from jobs.clients.load import Load, load_from_text, load_text
from jobs.clients.merged import Measured, read_all
from jobs.clients.own_load import OwnLoad
from jobs.clients.processes import process_count
from jobs.clients.request_log import RequestLog
from jobs.clients.request_table import write_requests
from jobs.clients.schedule import arrivals
from jobs.clients.tickets import draw, make_tickets
from jobs.clients.vllm_json import vllm_result
from jobs.errors import JobError
from jobs.prompts.drawing import Requests
from jobs.prompts.pieces import Pieces
from jobs.prompts.reader import PromptFile, write_prompt_file
from tests.stream_server import load, prompt_file

PROMPT_TOKENS = np.arange(100, 1100, 100)

Row = tuple[int, float, list[float], list[int], int, str]
ROWS: list[Row] = [
    (0, 10.0, [10.1, 10.2, 10.4], [], 3, ""),
    (1, 10.5, [10.8, 10.9], [], 2, ""),
    (2, 10.0, [10.3], [], -1, "no_done"),
    (3, 11.0, [11.2], [], 1, ""),
]


def log_of(rows: list[Row]) -> RequestLog:
    """(number, sent, chunk times, chunk tokens, output tokens, kind of failure)."""
    log = RequestLog(PROMPT_TOKENS)
    for number, sent, times, tokens, made, kind in rows:
        answer = Answer(made)
        answer.times.extend(times)
        answer.tokens.extend(tokens)
        answer.completion_tokens = made
        answer.prompt_tokens = int(PROMPT_TOKENS[number])
        exchange = Exchange(number, answer, sent, sent)
        exchange.status, exchange.end_s = 200, times[-1] + 0.05
        log.add(exchange, failure(kind, "boom") if kind else None)
    return log


def measured(folder: Path, *parts: list[Row]) -> Measured:
    """As if each part had been one process'."""
    outs = []
    for number, rows in enumerate(parts):
        outs.append(folder / f"{number}.npz")
        lags = np.array([0.001, 0.002], np.float32) * (number + 1)
        own = np.array([0.25 + number / 10, 0.5, 3, 9.5, 1.5])
        log_of(rows).write(outs[-1], lags=lags, load=own)
    return read_all(outs)


def test_figures_are_those_of_vllm_bench_serve(tmp_path: Path) -> None:
    got = figures(measured(tmp_path, ROWS), PROMPT_TOKENS, Limits())
    assert (got["completed"], got["failed"], got["error_counts"]) == (3, 1, {"no_done": 1})
    assert (got["total_input_tokens"], got["total_output_tokens"]) == (700, 6)
    assert got["duration"] == pytest.approx(1.25)  # first sending to the end of the last answer
    assert got["total_token_throughput"] == pytest.approx(706 / 1.25)
    assert got["mean_ttft_ms"] == pytest.approx(200)
    assert got["p90_ttft_ms"] == pytest.approx(280)
    assert got["mean_tpot_ms"] == pytest.approx((150 + 100) / 2)
    assert got["median_itl_ms"] == got["median_chunk_gap_ms"] == pytest.approx(100)
    assert got["mean_e2el_ms"] == pytest.approx((400 + 400 + 200) / 3)
    assert got["request_goodput"] is got["goodput_share"] is None
    assert got["prompt_tokens_differ"] == 0


def test_two_processes_give_the_figures_of_one(tmp_path: Path) -> None:
    whole = figures(measured(tmp_path, ROWS), PROMPT_TOKENS, Limits())
    two = measured(tmp_path, [ROWS[3], ROWS[1]], [ROWS[2], ROWS[0]])
    assert figures(two, PROMPT_TOKENS, Limits()) == whole
    assert two.columns["index"].tolist() == [0, 1, 2, 3]
    assert two.process.tolist() == [1, 0, 1, 0]
    assert two.chunk_starts.tolist() == [0, 3, 5, 6, 7]


def test_with_several_tokens_a_chunk_there_is_no_inter_token_latency(tmp_path: Path) -> None:
    rows: list[Row] = [(0, 0.0, [1.0, 2.0, 4.0], [1, 100, 50], 151, "")]
    got = figures(measured(tmp_path, rows), PROMPT_TOKENS, Limits())
    assert got["mean_itl_ms"] is got["p99_itl_ms"] is None
    assert got["mean_chunk_gap_ms"] == pytest.approx(1500)
    # Each token of a chunk gets an equal part: 100 of 10 ms and 50 of 40 ms.
    assert got["mean_token_gap_ms"] == pytest.approx((100 * 10 + 50 * 40) / 150)
    assert got["mean_tpot_ms"] == pytest.approx(3000 / 150)


def test_what_was_not_measured_is_none_and_never_zero(tmp_path: Path) -> None:
    got = figures(measured(tmp_path, [(0, 0.0, [0.5], [], 8, "")]), PROMPT_TOKENS, Limits())
    assert got["mean_tpot_ms"] is got["p99_itl_ms"] is got["mean_token_gap_ms"] is None
    assert got["mean_ttft_ms"] == pytest.approx(500)
    none = figures(measured(tmp_path, [(0, 0.0, [0.5], [], -1, "reset")]), PROMPT_TOKENS, Limits())
    assert none["mean_ttft_ms"] is none["mean_e2el_ms"] is None


def test_percentiles_are_interpolated_as_numpy_does(tmp_path: Path) -> None:
    rows: list[Row] = [(i, 0.0, [i + 1.0], [], 1, "") for i in range(10)]
    got = figures(measured(tmp_path, rows), PROMPT_TOKENS, Limits())
    assert got["p99_ttft_ms"] == pytest.approx(9910)
    assert got["median_ttft_ms"] == pytest.approx(5500)


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        (Limits(ttft_ms=250), 2 / 4),
        (Limits(tpot_ms=120), 2 / 4),  # one token: no TPOT, within any limit
        (Limits(ttft_ms=250, tpot_ms=120), 1 / 4),
        (Limits(ttft_ms=1), 0.0),
    ],
)
def test_goodput_is_the_share_of_all_requests_within_the_limits(
    limits: Limits, share: float, tmp_path: Path
) -> None:
    got = figures(measured(tmp_path, ROWS), PROMPT_TOKENS, limits)
    assert got["goodput_share"] == share
    assert got["request_goodput"] == pytest.approx(share * 4 / 1.25)


def test_the_vllm_bench_file_has_its_keys_in_its_definitions(tmp_path: Path) -> None:
    got = vllm_result(load("http://x"), measured(tmp_path, ROWS), PROMPT_TOKENS, "d", Limits())
    assert json.loads(json.dumps(got)) == got
    assert list(got)[:11] == [
        *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts"),
        *("request_rate", "burstiness", "max_concurrency", "duration"),
    ]
    assert got["ttfts"] == pytest.approx([0.1, 0.3, 0.0, 0.2])
    assert got["itls"] == [pytest.approx([0.1, 0.2]), pytest.approx([0.1]), [], []]
    assert got["errors"] == ["", "", "no_done", ""]
    assert got["output_lens"] == [3, 2, 0, 1]
    assert (got["completed"], got["failed"], got["max_concurrent_requests"]) == (3, 1, 2)
    assert got["mean_tpot_ms"] == pytest.approx(125)
    assert got["p99_itl_ms"] == pytest.approx(np.percentile([0.1, 0.2, 0.1], 99) * 1000)


def test_every_request_has_its_row(tmp_path: Path) -> None:
    prompts = prompt_file(tmp_path / "x.prompts", 3, warmup=1)
    write_requests(tmp_path / "r" / "0-c2.parquet", measured(tmp_path, ROWS[:3]), prompts)
    rows = pq.read_table(tmp_path / "r" / "0-c2.parquet").to_pylist()
    assert [r["request"] for r in rows] == [-1, 0, 1]
    assert [r["error"] for r in rows] == ["", "", "no_done"]
    assert [r["output_tokens"] for r in rows] == [3, 2, None]
    assert [r["asked_tokens"] for r in rows] == [2, 2, 2]
    assert rows[0]["chunk_us"] == pytest.approx([100_000, 200_000, 400_000], abs=1)
    assert rows[0]["sent_s"] == pytest.approx(0.5)


def test_the_clients_own_load_is_that_of_its_busiest_process(tmp_path: Path) -> None:
    got = own_load(measured(tmp_path, ROWS[:2], ROWS[2:]))
    assert got["client_processes"] == 2
    assert got["client_cpu_share"] == pytest.approx(0.35)
    assert got["client_loop_lag_max_ms"] == pytest.approx(4)
    assert got["client_loop_lag_p99_ms"] == pytest.approx(np.percentile([1, 2, 2, 4], 99))
    assert got["client_cpu_s"] == pytest.approx(3.0)
    assert got["ttft_client_added_p99_ms"] is None
    assert OwnLoad().share == 0


def test_prompts_that_the_server_counts_otherwise_are_told_and_later_turns_left_out(
    tmp_path: Path,
) -> None:
    found = measured(tmp_path, ROWS)
    assert other_prompts(found, PROMPT_TOKENS, None) == {
        "other_prompts": 0,
        "other_prompt_tokens": 0,
    }
    made = PROMPT_TOKENS - np.array([1, 0, 5, 3, 0, 0, 0, 0, 0, 0])  # the third one failed
    told = other_prompts(found, made, None)
    assert told == {"other_prompts": 2, "other_prompt_tokens": 4}
    told = other_prompts(found, made, np.arange(10) // 3)
    assert told == {"other_prompts": 1, "other_prompt_tokens": 1}
    found.columns["server_prompt_tokens"][:] = -1
    assert other_prompts(found, made, None)["other_prompts"] is None


def test_the_window_tells_the_first_wave_and_answers_that_fell_short(tmp_path: Path) -> None:
    asked = np.array([3, 9, 3, 1])
    got = window(measured(tmp_path, ROWS), asked, concurrency=2)
    assert (got["peak_concurrency"], got["short_outputs"], got["queue_mean_ms"]) == (1, 1, 0)
    assert got["first_wave_ttft_ms"] == pytest.approx(200)
    assert got["later_ttft_ms"] == pytest.approx(200)


def test_the_offered_rate_is_exact_and_burstiness_spreads_the_gaps() -> None:
    due = arrivals(1000, 50.0, 1.0, seed=3)
    assert due[-1] == pytest.approx(1000 / 50)
    assert (np.diff(due) >= 0).all()
    spread = [np.std(np.diff(arrivals(4000, 1.0, b, 3))) for b in (0.25, 1.0, 4.0, np.inf)]
    assert spread == pytest.approx([2.0, 1.0, 0.5, 0.0], abs=0.15)
    assert (arrivals(10, 5.0, 1.0, 1) == arrivals(10, 5.0, 1.0, 1)).all()
    with pytest.raises(ValueError, match="must be above 0"):
        arrivals(10, 0.0, 1.0, 1)


def test_tickets_are_drawn_once_and_in_order() -> None:
    descriptor = make_tickets(3)
    assert [draw(descriptor) for _ in range(4)] == [0, 1, 2, None]


DRAW_ALL = """
import sys
from jobs.clients.tickets import draw
sys.stdin.read()
numbers = iter(lambda: draw(int(sys.argv[1])), None)
print(*numbers)
"""


def test_processes_that_draw_at_the_same_time_never_get_the_same_ticket() -> None:
    count = 60_000
    descriptor = make_tickets(count)
    command = [sys.executable, "-c", DRAW_ALL, str(descriptor)]
    drawers = [
        subprocess.Popen(
            command,
            pass_fds=(descriptor,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for drawer in drawers:
        assert drawer.stdin
        drawer.stdin.close()
    drawn: list[str] = []
    for drawer in drawers:
        assert drawer.stdout
        drawn += drawer.stdout.read().split()
        assert drawer.wait(20) == 0
    assert sorted(map(int, drawn)) == list(range(count))


def test_a_request_that_was_sent_twice_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="sent some request twice"):
        measured(tmp_path, ROWS[:2], ROWS[1:])


@pytest.mark.parametrize(
    ("asked", "concurrency", "cores", "processes"),
    [(0, 64, 72, 1), (0, 5120, 72, 4), (0, 5120, 2, 1), (3, 5120, 2, 3), (9, 4, 72, 4)],
)
def test_streams_are_spread_over_as_many_processes_as_they_need(
    asked: int, concurrency: int, cores: int, processes: int
) -> None:
    wanted = load("http://x", concurrency=concurrency)
    assert process_count(asked, wanted, cores) == processes
    assert sum(wanted.share(n, processes).concurrency for n in range(processes)) == concurrency


def test_a_load_survives_the_way_to_a_process() -> None:
    wanted = load("http://x", request_rate=2.5)
    assert load_from_text(load_text(wanted)) == wanted


@pytest.mark.parametrize("url", ["x", "ftp://x", "http://x/v1", "http://"])
def test_a_base_url_that_is_none_is_told(url: str) -> None:
    with pytest.raises(ValueError, match="expected http"):
        Load(base_url=url, model="m", prompts="", concurrency=1).where()


def body(load_given: Load, prompts: PromptFile, index: int, history: bytes = b"") -> Any:
    """The JSON of a request whose head fits it."""
    head, text = Bodies(load_given, prompts, "k").request(index, 7, history).split(b"\r\n\r\n", 1)
    assert f"Content-Length: {len(text)}".encode() in head
    assert head.startswith(b"POST /v1/")
    return json.loads(text)


def test_the_request_asks_for_exactly_the_tokens_wanted(tmp_path: Path) -> None:
    prompts = prompt_file(tmp_path / "x.prompts", 2)
    got = body(load("http://x", model='odd "name"'), prompts, 1)
    assert got["model"] == 'odd "name"'
    assert got["prompt"] == prompts.ids(1)
    assert (got["max_tokens"], got["ignore_eos"], got["temperature"]) == (7, True, 0.0)
    assert got["stream_options"] == {"include_usage": True}
    more = body(load("http://x", chunk_usage=True, ignore_eos=False), prompts, 0)
    assert more["stream_options"]["continuous_usage_stats"] is True
    assert more["ignore_eos"] is False


def test_a_conversation_is_one_job_of_its_turns_and_carries_what_was_said(tmp_path: Path) -> None:
    texts = (b"hi", b'"bye"')
    pieces = Pieces(form="messages", texts=texts, words=2, leads=0, blocks=0, identity="test")
    zero = np.zeros(3, np.int64)
    requests = Requests(
        pieces=np.array([0, 1, 0], np.uint16),
        starts=np.arange(4),
        prompt_tokens=zero + 2,
        output_tokens=zero + 7,
        warmup=0,
        session=np.array([5, 6, 5]),
        turn=np.array([1, 0, 0]),
        wait_s=np.zeros(3),
    )
    write_prompt_file(tmp_path / "m.prompts", requests, pieces, {})
    prompts = PromptFile.open(tmp_path / "m.prompts")
    assert turns_of(prompts, range(3)) == [[2, 0], [1]]
    said = b'{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},'
    messages = body(load("http://x"), prompts, 1, said)["messages"]
    assert [m["content"] for m in messages] == ["hi", "ho", '"bye"']
