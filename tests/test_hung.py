"""Hung, not dead: what counts as progress, what counts as moving, and how it is said."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from jobs.engines.dialect import Load
from jobs.engines.vllm import VllmDialect
from jobs.events import Journal
from jobs.hang_watch import Target
from jobs.logs import LogLimit, LogReader, last_lines
from jobs.probing import greeting_of
from jobs.processes import Running
from jobs.rehearsal.faults import ALLOWED, FaultError, Faults, parse_fault
from jobs.rehearsal.side_channel import StateStore, listen
from jobs.run_spec import Step
from jobs.startup import Progress, Progresses
from jobs.supervisor import Watched
from launcher.engines.rehearsal import FAULTS, OPTIONS

VLLM = VllmDialect()
SHARDS = "Loading safetensors checkpoint shards:"


def watched_step(name: str, log: Path) -> Watched:
    """A step of which only the log exists."""
    running = Running(name, cast(asyncio.subprocess.Process, None), log, 0)
    step = Step(name=name, node=0, argv=[], env={}, command=[], log=log.name)
    never: asyncio.Future[int] = asyncio.Future(loop=asyncio.new_event_loop())
    return Watched(step, "decode", running, name, ended=never)


def starting(log: Path) -> Progress:
    """The start-up of a worker whose log is `log`."""
    return Progress(watched_step("w", log), VLLM, 0.0)


@pytest.mark.parametrize(
    ("before", "later", "moves"),
    [
        (f"{SHARDS}  63% Completed | 108/170", f"{SHARDS}  64% Completed | 110/170", True),
        (f"{SHARDS}  64% Completed | 110/170", f"{SHARDS}  64% Completed | 110/170", False),
        ("Waiting for 1 local core engine to start (10 s)", "", False),
        (
            "Waiting for 1 local core engine to start (10 s)",
            "Waiting for 1 local core engine to start (20 s)",
            False,
        ),
        ("retrying connection to 10.0.0.1:13345", "retrying connection to 10.0.0.2:13346", False),
        ("Starting to load model m...", "torch.compile takes 45.02 s in total", True),
        ("Starting to load model m...", "Using FlashInfer GDN prefill kernel", True),
    ],
)
def test_only_what_was_not_said_before_is_progress(
    tmp_path: Path, before: str, later: str, moves: bool
) -> None:
    log = tmp_path / "w.log"
    log.write_text(before + "\n")
    progress = starting(log)
    progress.look(10.0)
    with log.open("a") as stream:
        stream.write(later + "\n")
    progress.look(20.0)
    assert progress.moved_at == (20.0 if moves else 10.0)
    assert progress.wrote_at == 20.0


def test_an_endpoint_moves_when_any_of_its_processes_does(tmp_path: Path) -> None:
    watched = []
    for name in ("leader", "follower"):
        (tmp_path / name).write_text("up\n")
        watched.append(watched_step(name, tmp_path / name))
    both = Progresses(watched, VLLM, Journal(tmp_path / "events.jsonl"), 0.0)
    both.look(1.0, [])
    with (tmp_path / "follower").open("a") as stream:
        stream.write(f"{SHARDS} 10%\n")
    both.look(50.0, [])
    assert both.all["leader"].moved_at == 1.0
    assert both.moved_at(["leader", "follower"]) == 50.0


def load(running: float, tokens: float) -> dict[str, Load]:
    return {"0": Load(running=running, waiting=0.0, tokens=tokens)}


def test_an_engine_stands_still_only_with_running_requests_and_no_new_token(tmp_path: Path) -> None:
    target = Target(starting(tmp_path / "w.log").watched, 0.0)
    target.take(1.0, load(4, 100))
    target.take(2.0, load(4, 100))
    assert target.moved_at["0"] == 1.0
    target.take(3.0, load(4, 101))
    assert target.moved_at["0"] == 3.0
    target.take(90.0, load(0, 101))
    assert target.moved_at["0"] == 90.0


def test_a_refusal_is_counted_from_its_first_and_an_answer_ends_it(tmp_path: Path) -> None:
    target = Target(starting(tmp_path / "w.log").watched, 0.0)
    target.miss(5.0, "refused", refused=True)
    target.miss(7.0, "refused", refused=True)
    assert target.refused_at == 5.0
    target.miss(8.0, "no answer within 10 s", refused=False)
    assert target.refused_at is None
    target.miss(9.0, "refused", refused=True)
    target.take(10.0, {})
    assert (target.refused_at, target.answered_at) == (None, 10.0)


PAGE = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 1000.0
vllm:generation_tokens_total{engine="0",model_name="m"} 50.0
vllm:num_requests_running{engine="1",model_name="m"} 0.0
"""


def test_loads_are_read_by_engine_and_each_token_once() -> None:
    assert VLLM.loads(PAGE) == {
        "0": Load(running=3, waiting=2, tokens=1050),
        "1": Load(running=0, waiting=0, tokens=0),
    }


@pytest.mark.parametrize(
    ("greeting", "right"),
    [
        (b"\xff\0\0\0\0\0\0\0\x01\x7f", True),
        (b"", False),
        (b"SSH-2.0-Op", False),
        (b"\xff\0\0\0\0\0\0\0\x01\x00", False),
        (b"\xff\0\0\0", False),
    ],
)
def test_a_side_channel_is_told_from_a_stranger_by_its_greeting(
    greeting: bytes, right: bool
) -> None:
    assert VLLM.is_side_channel(greeting) is right


def test_the_rehearsal_side_channel_greets_as_a_zeromq_socket_does() -> None:
    async def ask() -> tuple[bytes | None, bytes | None]:
        server = await listen(StateStore(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        open_one = await greeting_of("127.0.0.1", port, 10)
        server.close()
        return open_one, await greeting_of("127.0.0.1", port, 10)

    greeting, closed = asyncio.run(ask())
    assert greeting is not None
    assert VLLM.is_side_channel(greeting)
    assert closed is None


def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    limit = LogLimit(log, 3 * 4096)
    writer = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    reader = LogReader(log, 0)
    cuts = 0
    for number in range(1000):
        os.write(writer, f"line {number} {'x' * 40}\n".encode())
        cuts += limit.look()
    os.close(writer)
    kept = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert cuts > 5
    assert kept < 4 * 4096
    assert limit.first.read_text().startswith("line 0 ")
    assert log.read_text().splitlines()[0].startswith(f"--- log cut here ({cuts}): cluster.log_li")
    assert last_lines(log, 10**9, VLLM.is_noise, 1)[-1].startswith("line 999 ")
    assert reader.new_lines()[-1].startswith("line 999 ")


def test_a_log_below_the_limit_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    assert LogLimit(log, 1e6).look() is False
    log.write_text("short\n")
    assert LogLimit(log, 1e6).look() is False
    assert [path.name for path in tmp_path.iterdir()] == ["w.log"]


def test_the_launcher_allows_the_faults_that_the_engine_knows() -> None:
    assert FAULTS == ALLOWED
    words = FAULTS.partition("several")[0].replace("SECONDS", "5").replace("CODE", "3")
    for name in ("REQUEST", "FIRST", "LAST", "MB", "N"):
        words = words.replace(name, "7")
    for word in filter(None, (word.strip() for word in words.split(","))):
        for text in (word, f"decode/{word}", f"deaf+{word}"):
            assert OPTIONS["fail"].fullmatch(text), text
            parse_fault(text, "decode")


def test_faults_of_a_role_can_be_added_up() -> None:
    both = parse_fault("decode/deaf+http500@3-5", "decode")
    assert both == Faults(deaf=True, http500=(3, 5))
    assert parse_fault("decode/deaf", "prefill") == Faults()
    with pytest.raises(FaultError, match="before / stands prefill, decode or aggregated"):
        parse_fault("router/deaf")
    with pytest.raises(FaultError, match="several with"):
        parse_fault("deaf+explode")
