"""`logs`: many logs as one, in the order of their times, whatever their size and content."""

from __future__ import annotations

import io
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from jobs.plain_text import UNPRINTABLE
from jobs.runs.facts import read_facts
from jobs.runs.log_lines import LINE_BYTES, LogFile, clean
from jobs.runs.log_view import LogRequestError, Printer, RunLogs, Wanted, pattern_of, since_of
from jobs.runs.stamps import Stamps
from jobs.store import RunDir
from tests.fakes_runs import event, jobs, make_dir, submitted

NEAR = time.mktime((2026, 1, 1, 12, 0, 0, 0, 0, -1))


def local(text: str) -> float:
    """A local time of day on 2026-01-01 as seconds since 1970."""
    return time.mktime(time.strptime(f"2026-01-01 {text}", "%Y-%m-%d %H:%M:%S"))


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("INFO 01-01 11:59:58 [serving.py:38] ready", local("11:59:58")),
        ("(EngineCore_DP0 pid=12) INFO 01-01 11:59:58 [core.py:9] x", local("11:59:58")),
        ("(APIServer pid=7) WARNING 01-01 11:59:58 [x.py:1] y", local("11:59:58")),
        ("2026-01-01 11:59:58,250 INFO result written", local("11:59:58") + 0.25),
        ("[2026-01-01 11:59:58 TP0] sglang", local("11:59:58")),
        ("I0101 11:59:58.500000 123 nixl.cpp:3] x", local("11:59:58") + 0.5),
        ("I20260101 11:59:58.500000 123 nixl.cpp:3] x", local("11:59:58") + 0.5),
        ("submitit INFO (2026-01-01 11:59:58,500) - done", local("11:59:58") + 0.5),
        ("2026-01-01T11:59:58.500000Z  INFO vllm_router: x", 1767268798.5),
        ("2026-01-01T11:59:58.5+02:00 x", 1767261598.5),
        ("[1767268798.123456] [n1:12:0] ucp_context.c:1 UCX INFO x", 1767268798.123456),
        ("INFO 12-31 23:59:59 [x.py:1] last year", local("00:00:00") - 1),
        ("INFO:     127.0.0.1:55 - GET /health", None),
        ('  File "/x.py", line 3', None),
        ("n1:12:13 [0] NCCL INFO Bootstrap", None),
        ("INFO 13-45 99:99:99 [x.py:1] no date", None),
        ("the run of 2026-01-01 11:59:58 was better", None),
        ("99999999999999999999", None),
        ("", None),
    ],
)
def test_the_stamps_of_engines_routers_clients_and_libraries_are_read(
    line: str, at: float | None
) -> None:
    assert Stamps(NEAR).read(line) == at


def write(run: RunDir, step: str, *lines: str) -> Path:
    path = run.log(step)
    with path.open("a") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    return path


def read(run: RunDir, **wanted: object) -> list[tuple[str, str]]:
    logs = RunLogs(read_facts(run), Wanted(**wanted))  # type: ignore[arg-type]
    return [(line.source, line.text) for line in logs.so_far(follow=False)]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run with two engines' logs and a router's."""
    run = make_dir(tmp_path, "aaaaaa")
    event(run, "start", "started", step="prefill0", node="n1", pid=1, text="prefill started on n1")
    event(run, "start", "started", step="decode0", node="n2", pid=2, text="decode started on n2")
    write(run, "prefill0", "INFO 01-01 10:00:01 [a.py:1] p1", "INFO 01-01 10:00:04 [a.py:1] p4")
    write(run, "decode0", "INFO 01-01 10:00:02 [a.py:1] d2", "Traceback:", "  d2 goes on")
    write(run, "router", "2026-01-01 10:00:03,000 r3")
    return run


def test_lines_come_in_the_order_of_their_times_and_a_traceback_stays_whole(run: RunDir) -> None:
    assert [text.rpartition(" ")[2] for _, text in read(run)] == [
        *("p1", "d2", "Traceback:", "on", "r3", "p4")
    ]


@pytest.mark.parametrize(
    ("asked", "sources"),
    [
        (("prefill0",), {"prefill0"}),
        (("prefill",), {"prefill0"}),
        (("decode", "router"), {"decode0", "router"}),
        (("*0",), {"prefill0", "decode0"}),
        ((), {"prefill0", "decode0", "router"}),
        (("prefill",) * 2, {"prefill0"}),
    ],
)
def test_logs_are_chosen_by_step_by_role_or_by_pattern(
    run: RunDir, asked: tuple[str, ...], sources: set[str]
) -> None:
    assert {source for source, _ in read(run, workers=asked)} == sources


def test_the_last_lines_are_the_last_of_all_logs_together(run: RunDir) -> None:
    assert [text[-2:] for _, text in read(run, last=3)] == ["on", "r3", "p4"]


def test_since_and_grep_choose_lines(run: RunDir) -> None:
    late = read(run, since=local("10:00:03"), last=None)
    assert [text[-2:] for _, text in late] == ["r3", "p4"]
    errors = read(run, pattern=pattern_of("traceback", ignore_case=True))
    assert errors == [("decode0", "Traceback:")]


def test_the_last_matching_lines_are_found_however_far_up_they_stand(run: RunDir) -> None:
    write(run, "decode0", "needle 1", *("hay" for _ in range(50_000)), "needle 2", "hay")
    found = read(run, pattern=pattern_of("needle", ignore_case=False), last=2)
    assert [text for _, text in found] == ["needle 1", "needle 2"]


def test_a_length_or_a_time_says_since_when() -> None:
    assert since_of("90s", 1000.0) == 910.0
    assert since_of("10m", 1000.0) == 400.0
    assert since_of("1.5h", 10_000.0) == 4600.0
    assert since_of("2026-01-01T10:00:00", 0.0) == local("10:00:00")
    assert since_of("2026-01-01T10:00:00+00:00", 0.0) == 1767261600.0


@pytest.mark.parametrize("text", ["", "soon", "10", "10y", "2026-13-01", "-5m", "9" * 40])
def test_any_other_since_is_refused_with_what_it_can_be(text: str) -> None:
    with pytest.raises(LogRequestError, match="10m"):
        since_of(text, 0.0)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b[31mred\x1b[0m",
        b"\x1b]0;title\x07x",
        b"\x1b]52;c;aGk=\x07x",
        b"\x1b[2J\x1b[H gone",
        b"back\x08\x08\x08space",
        b"\x9b31m c1",
        "\u202eright to left".encode(),
        b"\xff\xfe broken utf-8",
        b"nul \x00 byte",
        b"\x1bP+q544e\x1b\\ dcs",
        b"bell \x07",
    ],
)
def test_no_line_can_move_the_cursor_or_hide(run: RunDir, hostile: bytes) -> None:
    import unicodedata  # noqa: PLC0415

    run.log("evil").write_bytes(hostile + b"\n")
    ((_, text),) = read(run, workers=("evil",))
    assert not {c for c in text if unicodedata.category(c) in UNPRINTABLE}


@pytest.mark.parametrize(
    "data", [b"ERROR no memory\r\x1b[2K", b"ERROR no memory\r", b"ERROR no memory\r\x1b[2J \r"]
)
def test_a_line_cannot_hide_itself_behind_a_return(data: bytes) -> None:
    assert clean(data + b"\n") == "ERROR no memory"


def test_a_progress_bar_is_shown_in_its_last_state(run: RunDir) -> None:
    run.log("bar").write_bytes(b"loading  5%\rloading 50%\rloading 100%\nnext\n")
    assert [text for _, text in read(run, workers=("bar",))] == ["loading 100%", "next"]


def test_a_large_log_and_an_endless_line_cost_little_memory(run: RunDir) -> None:
    block = b"".join(b"INFO 01-01 10:00:05 [a.py:1] line %07d\n" % i for i in range(20_000))
    with run.log("flood").open("wb") as stream:
        for _ in range(60):
            stream.write(block)
        stream.write(b"x" * (32 << 20) + b"\nINFO 01-01 10:00:06 [a.py:1] end\n")
    assert run.log("flood").stat().st_size > 70 << 20
    tracemalloc.start()
    last = read(run, workers=("flood",), last=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert last[-1][1].endswith("end")
    assert last[-2][1].endswith("[... cut]")
    assert len(last[-2][1]) < LINE_BYTES + 20
    assert last[-3][1].endswith("line 0019999")
    assert peak < 4 << 20


def bytes_read() -> int:
    """All that this process has read so far, by Linux' own count."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("rchar:") + 1])


def test_since_in_a_large_log_is_found_without_reading_it_all(run: RunDir) -> None:
    path = run.log("flood")
    with path.open("w") as stream:
        for second in range(3600):
            stamp = f"{10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            stream.write(f"INFO 01-01 {stamp} [a.py:1] {'x' * 2000} {second}\n")
    log = LogFile("flood", path, 0.0)
    before = bytes_read()
    log.skip_to(local("10:50:00"))
    first = next(log.lines())
    assert bytes_read() - before < path.stat().st_size / 10
    assert local("10:50:00") - 60 < first.at <= local("10:50:00")
    found = read(run, workers=("flood",), since=local("10:50:00"), last=None)
    assert [text.rpartition(" ")[2] for _, text in found] == [str(s) for s in range(3000, 3600)]


def test_new_lines_new_files_rotation_and_truncation_are_followed(run: RunDir) -> None:
    logs = RunLogs(read_facts(run), Wanted(last=1))
    assert [line.text[-2:] for line in logs.so_far(follow=True)] == ["p4"]
    path = write(run, "prefill0", "INFO 01-01 10:00:05 [a.py:1] p5")
    with path.open("a") as stream:
        stream.write("half a li")
    write(run, "late", "here I am")
    assert [line.text[-2:] for line in logs.new()] == ["am", "p5"]
    with path.open("a") as stream:
        stream.write("ne\nlast of the old\n")
    path.rename(path.with_suffix(".log.1"))
    write(run, "prefill0", "first of the new")
    texts = [line.text for line in logs.new()]
    assert texts == ["half a line", "last of the old", "first of the new"]
    os.truncate(path, 0)
    write(run, "prefill0", "after")
    assert [line.text for line in logs.new()] == ["after"]
    assert logs.new() == []


def test_links_and_pipes_among_the_logs_are_not_read(run: RunDir, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not a log\n")
    run.log("link").symlink_to(secret)
    os.mkfifo(run.log("pipe"))
    assert {source for source, _ in read(run)} == {"prefill0", "decode0", "router"}


def test_the_runs_key_is_blotted_out_and_colours_are_for_terminals(run: RunDir) -> None:
    run.api_key.write_text("k3y-of-this-run\n")
    write(run, "prefill0", "argv: --api-key k3y-of-this-run")
    done = jobs("logs", run.path)
    assert done.returncode == 0, done.stderr
    assert "--api-key ***" in done.stdout
    assert "k3y-of-this-run" not in done.stdout
    assert "\x1b" not in done.stdout
    out = io.StringIO()
    logs = RunLogs(read_facts(run), Wanted(last=1))
    for line in logs.so_far(follow=False):
        Printer(out, colours=True).write(line)
    assert out.getvalue().startswith("\x1b[36mprefill0\x1b[0m | ")


def test_a_log_path_outside_the_run_is_not_read(run: RunDir, tmp_path: Path) -> None:
    (tmp_path / "other.out").write_text("somebody's\n")
    submitted(run)
    text = run.submission.read_text().replace(str(run.path / "submitit"), str(tmp_path))
    run.submission.write_text(text.replace("x.out", "other.out"))
    done = jobs("logs", run.path)
    assert "somebody's" not in done.stdout


def test_a_worker_that_is_not_there_is_an_error_that_names_those_that_are(run: RunDir) -> None:
    done = jobs("logs", run.path, "--worker", "decode7")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no log of decode7; there are: decode0, prefill0, router" in done.stderr
    done = jobs("logs", run.path, "--grep", "(")
    assert done.returncode == 2
    assert "no regular expression" in done.stderr
