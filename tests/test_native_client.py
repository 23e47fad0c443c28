"""The native benchmark client as a program: gate, processes, records, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.clients.arguments import parse_arguments
from jobs.clients.native import main
from tests.patience import wait_until
from tests.rehearsal_process import KEY, MODEL, free_port, metric, router, running, worker
from tests.stream_server import prompt_file


@pytest.mark.parametrize(
    "more",
    [
        ["--input-range", "9", "3"],
        ["--request-rate", "0"],
        ["--base-url", "http://x/v1"],
        ["--concurrency", "0"],
        ["--processes", "-1"],
    ],
)
def test_wrong_arguments_end_with_status_2(more: list[str]) -> None:
    parse_arguments(arguments("http://x", Path("r.json")))
    with pytest.raises(SystemExit) as stopped:
        parse_arguments([*arguments("http://x", Path("r.json")), *more])
    assert stopped.value.code == 2


@pytest.mark.parametrize("option", ["--result", "--requests", "--vllm-bench-json"])
@pytest.mark.parametrize("place", ["pipe", "file/r.json"])
def test_a_place_where_nothing_can_be_written_is_told_before_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, place: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stopped:
        parse_arguments([*arguments("http://x", Path("r.json")), option, str(tmp_path / place)])
    assert stopped.value.code == 2
    assert f"{option} {tmp_path / place}: " in capsys.readouterr().err


def test_a_closed_loop_without_streams_sends_nothing_and_is_no_result(tmp_path: Path) -> None:
    prompts, result = tmp_path / "x.prompts", tmp_path / "r.json"
    prompt_file(prompts, 4)
    told = ["--base-url", "http://127.0.0.1:9", "--model", "m", "--prompts", str(prompts)]
    assert main([*told, "--concurrency", "0", "--result", str(result)]) == 2
    assert not result.exists()


def test_without_a_prompt_file_the_lengths_must_be_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [
        "--base-url",
        "http://x",
        "--model",
        "m",
        "--result",
        "r",
        "--concurrency",
        "1",
        "--num-prompts",
        "3",
    ]
    with pytest.raises(SystemExit):
        parse_arguments(given)
    assert "--input-range, --output-range, --vocab-size must be given" in capsys.readouterr().err


def arguments(base_url: str, result: Path) -> list[str]:
    given = f"--base-url {base_url} --model {MODEL} --name c8 --concurrency 8 --num-prompts 40"
    given += " --warmup 8 --input-range 50 90 --output-range 3 12 --seed 5 --vocab-size 30000"
    return [*given.split(), "--timeout-s", "120", "--result", str(result)]


def client(url: str, folder: Path, *more: str) -> AbstractContextManager[Any]:
    """The program as a child process with its gate in `folder`."""
    command = [sys.executable, "-m", "jobs.clients.native", *arguments(url, folder / "c8.json")]
    command += ["--gate", str(folder), *more]
    return running(command, folder / "c8.log", OPENAI_API_KEY=KEY)


def wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path} appears")


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
    files = ["--requests", str(tmp_path / "requests.parquet")]
    files += ["--vllm-bench-json", str(tmp_path / "bench.json"), "--metadata", "rehearsal=true"]
    with client(url, tmp_path, *files, "--processes", "2") as process:
        wait_for(tmp_path / "c8.ready")
        time.sleep(0.2)
        assert metric(decode, "generation_tokens_total") == before
        (tmp_path / "c8.go").touch()
        assert process.wait(120) == 0, (tmp_path / "c8.log").read_text()
    got = json.loads((tmp_path / "c8.json").read_text())
    assert (got["completed"], got["failed"], got["warmup_failed"]) == (40, 0, 0)
    assert got["duration"] > 0
    assert got["median_itl_ms"] is not None
    assert got["prompt_tokens_differ"] == 0
    assert got["load"]["client_processes"] == 2
    rows = pq.read_table(tmp_path / "requests.parquet").to_pydict()
    assert rows["request"] == list(range(40))
    assert set(rows["process"]) == {0, 1}
    assert sum(rows["output_tokens"]) == got["total_output_tokens"]
    bench = json.loads((tmp_path / "bench.json").read_text())
    assert bench["output_lens"] == rows["output_tokens"]
    assert got["rehearsal"] == bench["rehearsal"] == "true"
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
        assert process.wait(120) == 3
    assert not (tmp_path / "c8.json").exists()


def test_requests_are_sent_when_they_are_due(pair: tuple[str, str], tmp_path: Path) -> None:
    rate = ("--request-rate", "40", "--num-prompts", "20", "--warmup", "0", "--concurrency", "0")
    requests = tmp_path / "r.parquet"
    command = [sys.executable, "-m", "jobs.clients.native"]
    command += [*arguments(pair[0], tmp_path / "r.json"), *rate, "--requests", str(requests)]
    with running(command, tmp_path / "log", OPENAI_API_KEY=KEY) as process:
        assert process.wait(120) == 0, (tmp_path / "log").read_text()
    rows = pq.read_table(requests).to_pydict()
    assert max(rows["due_s"]) == pytest.approx(20 / 40, abs=1e-6)
    late = [sent - due for sent, due in zip(rows["sent_s"], rows["due_s"], strict=True)]
    assert min(late) > -0.002  # uvloop's clock ticks in whole milliseconds
    got = json.loads((tmp_path / "r.json").read_text())
    assert (got["completed"], got["request_rate"]) == (20, 40.0)


def test_chats_are_measured_too(pair: tuple[str, str], tmp_path: Path) -> None:
    prompt_file(tmp_path / "x.prompts", 8, output_range=(3, 3), form="text")
    prompt_file(tmp_path / "ids.prompts", 8)
    command = [sys.executable, "-m", "jobs.clients.native"]
    command += [*arguments(pair[0], tmp_path / "r.json"), "--endpoint", "chat", "--prompts"]
    with running(
        [*command, str(tmp_path / "x.prompts")], tmp_path / "log", OPENAI_API_KEY=KEY
    ) as p:
        assert p.wait(120) == 0, (tmp_path / "log").read_text()
    got = json.loads((tmp_path / "r.json").read_text())
    assert (got["completed"], got["total_output_tokens"]) == (8, 24)
    with running([*command, str(tmp_path / "ids.prompts")], tmp_path / "log") as p:
        assert p.wait(120) == 2
    assert "cannot be sent as a chat" in (tmp_path / "log").read_text()


def children(pid: int) -> list[int]:
    """Processes that `pid` started."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def gone(pid: int) -> bool:
    """Whether the process is no more (or waits to be collected)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_process_that_dies_ends_the_client_with_status_1(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    more = ("--output-range", "50000", "50000", "--processes", "2")
    with client(pair[0], tmp_path, *more) as process:
        wait_for(tmp_path / "c8.ready")
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        (tmp_path / "c8.go").touch()
        assert process.wait(120) == 1
        assert gone(second)
    assert "ended with status -9" in (tmp_path / "c8.log").read_text()
    assert not (tmp_path / "c8.json").exists()


def test_a_client_that_is_killed_leaves_no_process_behind(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    with client(pair[0], tmp_path, "--output-range", "50000", "50000") as process:
        wait_for(tmp_path / "c8.ready")
        (tmp_path / "c8.go").touch()
        time.sleep(0.3)
        left = children(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda: all(map(gone, left)), f"the end of {left}")
    assert left


def test_a_prompt_file_is_waited_for_and_a_torn_one_is_refused(tmp_path: Path) -> None:
    given = ["--prompts", str(tmp_path / "x.prompts")]
    with client("http://127.0.0.10:9", tmp_path, *given) as process:
        time.sleep(1.0)
        assert process.poll() is None
        (tmp_path / "part").write_bytes(b"no prompts")
        (tmp_path / "part").rename(tmp_path / "x.prompts")
        assert process.wait(120) == 2
    assert "x.prompts" in (tmp_path / "c8.log").read_text()
