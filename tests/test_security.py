"""Keys, tokens and other people's text: nothing secret is written, nothing hostile gets through."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from jobs import cache_folder
from jobs.cache_folder import CacheFolderError, claim, remove, remove_stale
from jobs.commands import PlainFormatter
from jobs.plain_text import printable
from jobs.redaction import Redactor, secret_values
from jobs.waiting import LogTail
from tests.fakes_jobs import PYTHON, REPO, make_run, pair_run, start_driver, wait_for_event

TOKEN = "hf_abcdefghijklmnop"


def test_values_are_secret_by_their_variables_name() -> None:
    secret = {
        "HF_TOKEN": "hf_0123456789",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
        "WANDB_API_KEY": "0a1b2c3d4e5f",
        "MY_PASSWORD": "correct horse",
        "OPENAI_APIKEY": "sk-123456789",
        "GITHUB_AUTH": "ghp_123456789",
    }
    public = {
        "PATH": "/usr/bin:/bin",
        "TOKENIZERS_PARALLELISM": "false and more",
        "SSH_AUTH_SOCK": "/tmp/ssh-1/agent",
        "HF_TOKEN_PATH": "/home/me/token",
        "KEYBOARD": "us-international",
        "SHORT_TOKEN": "abc",
        "XAUTHORITY": "/home/me/.Xauthority",
    }
    assert set(secret_values(secret | public)) == set(secret.values())


def test_a_secret_within_a_longer_secret_leaves_no_rest() -> None:
    redact = Redactor(secret_values({"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"}))
    assert redact("x abcdefghijkl y abcdefgh z") == "x *** y *** z"


def test_files_are_scrubbed_in_place_and_links_are_not_followed(tmp_path: Path) -> None:
    log, clean, empty = tmp_path / "a.log", tmp_path / "b.log", tmp_path / "c.log"
    log.write_bytes(b"\xff token=" + TOKEN.encode() + b" again " + TOKEN.encode())
    clean.write_text("nothing")
    empty.write_text("")
    outside = tmp_path / "outside"
    outside.write_text(TOKEN)
    link = tmp_path / "d.log"
    link.symlink_to(outside)
    size = log.stat().st_size
    touched = Redactor([TOKEN]).scrub([log, clean, empty, link, tmp_path / "gone.log"])
    assert touched == [log]
    assert TOKEN.encode() not in log.read_bytes()
    assert log.stat().st_size == size
    assert outside.read_text() == TOKEN


def test_neither_key_nor_token_is_in_any_file_or_command_line_of_a_run(tmp_path: Path) -> None:
    """The decode worker is told to print its whole environment, as a careless engine would."""
    document = pair_run(points=(2,))
    worker = document["plan"]["workers"][1]
    careless = (
        "import os,sys; print(dict(os.environ), flush=True); os.execvp(sys.argv[1],sys.argv[1:])"
    )
    worker["command"] = [PYTHON, "-c", careless, *worker["command"]]
    run_dir = make_run(tmp_path / "run", document)
    os.environ["HF_TOKEN"] = TOKEN
    try:
        driver = start_driver(run_dir)
    finally:
        del os.environ["HF_TOKEN"]
    wait_for_event(run_dir, event="point")
    key = run_dir.api_key.read_text().strip()
    lines = [_cmdline(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    assert [line for line in lines if key in line or TOKEN in line] == []
    assert any(str(run_dir.path) in line for line in lines)
    assert driver.wait(timeout=120) == 0
    assert stat.S_IMODE(run_dir.api_key.stat().st_mode) == 0o600
    holding = {
        path.name
        for path in run_dir.path.rglob("*")
        if path.is_file() and re.search(f"{key}|{TOKEN}".encode(), path.read_bytes())
    }
    assert holding == {"api_key"}
    assert b"HF_TOKEN': '****" in run_dir.log("decode0").read_bytes()
    for path in run_dir.path.rglob("*"):
        if path.name not in ("run.json", "driver.log"):
            assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path


def _cmdline(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2028\x9b1m"


def test_other_programs_text_cannot_move_a_cursor_or_forge_a_line() -> None:
    shown = printable(HOSTILE)
    assert shown.isprintable()
    assert "evil" in shown
    assert printable("a\tb\nc", keep="\n\t") == "a\tb\nc"
    record = logging.LogRecord("jobs", logging.INFO, "", 0, "%s\rOK completed", (HOSTILE,), None)
    line = PlainFormatter("%(message)s").format(record)
    assert line.isprintable()


def test_a_followed_log_is_harmless_for_the_terminal_also_when_cut_within_a_character(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    tail, out = LogTail(path), io.StringIO()
    tail.copy(out)
    data = f"{HOSTILE}\rload 10 %\r\nä\n".encode()
    for place in range(0, len(data), 3):
        with path.open("ab") as stream:
            stream.write(data[place : place + 3])
        tail.copy(out)
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(line.isprintable() for line in text.splitlines())
    assert text.endswith("load 10 %\n\nä\n") or text.endswith("load 10 %\nä\n")


def test_a_cache_folder_is_the_users_own_and_closed_to_others(tmp_path: Path) -> None:
    folder = claim(str(tmp_path), "run-1")
    assert folder == tmp_path / f"launcher-{os.getuid()}" / "run-1"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700] * 2
    assert claim(str(tmp_path), "run-1") == folder
    remove(str(tmp_path), "run-1")
    assert not folder.exists()


@pytest.mark.parametrize("trap", ["link", "inner link", "open", "file", "foreign"])
def test_a_trap_at_a_guessable_name_stops_the_run_before_anything_is_written(
    tmp_path: Path, trap: str
) -> None:
    own = tmp_path / f"launcher-{os.getuid()}"
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    if trap == "link":
        own.symlink_to(outside)
    elif trap == "inner link":
        own.mkdir(mode=0o700)
        (own / "run-1").symlink_to(outside)
    elif trap == "open":
        own.mkdir()
        own.chmod(0o777)
    elif trap == "file":
        own.write_text("")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can make another user's folder")
        own.mkdir(mode=0o700)
        os.chown(own, 4242, 4242)
    with pytest.raises(CacheFolderError, match=r"cache_dir elsewhere|chmod 700"):
        claim(str(tmp_path), "run-1")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../outside", "link"])
def test_removing_caches_never_leaves_the_users_folder(tmp_path: Path, name: str) -> None:
    claim(str(tmp_path), "run-1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (cache_folder.user_folder(str(tmp_path)) / "link").symlink_to(outside)
    (outside / "kept").write_text("")
    remove(str(tmp_path), name)
    assert (outside / "kept").exists()
    assert (cache_folder.user_folder(str(tmp_path)) / "run-1").exists()


def test_only_old_caches_of_runs_that_do_not_live_are_removed(tmp_path: Path) -> None:
    for name in ("dead", "living", "fresh"):
        claim(str(tmp_path), name)
    own = cache_folder.user_folder(str(tmp_path))
    for name in ("dead", "living"):
        os.utime(own / name, (1, 1))
    assert remove_stale(str(tmp_path), ["living-0a1b"]) == [own / "dead"]
    assert sorted(path.name for path in own.iterdir()) == ["fresh", "living"]


def test_two_local_runs_of_one_second_share_no_address_and_both_end_well(tmp_path: Path) -> None:
    lines = [
        *(PYTHON, "-m", "launcher", "cluster=local", "engine=rehearsal", "workload=smoke"),
        *("topology=dp1_prefill1x1", "accuracy=none", f"cluster.results_dir={tmp_path}/runs"),
    ]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    both = [
        subprocess.Popen(lines, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=180) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    runs = sorted((tmp_path / "runs").glob("[!.]*"))
    assert len(runs) == 2
    assert [stat.S_IMODE(run.stat().st_mode) for run in runs] == [0o700] * 2
    told = [json.loads((run / "allocation.json").read_text())["nodes"] for run in runs]
    addresses = [{node["address"].rpartition(".")[0] for node in nodes} for nodes in told]
    assert addresses[0] & addresses[1] == set()
    assert len({(run / "api_key").read_text() for run in runs}) == 2
