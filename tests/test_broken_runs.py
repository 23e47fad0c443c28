"""Over twenty kinds of broken run directory beside a good one: a line each, never the table."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from jobs.records import to_json
from jobs.store import RunDir
from tests.analysis_runs import completed_run, point

Break = Callable[[Path], object]
NOBODY = 65534


def edit(name: str, change: Callable[[dict[str, Any]], Any]) -> Break:
    """Rewrites one record of a run."""

    def apply(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return apply


def replace_by(name: str, content: bytes) -> Break:
    """Other bytes in the place of one record."""
    return lambda folder: (folder / name).write_bytes(content)


def loop(folder: Path) -> None:
    """run.json is a link to itself."""
    (folder / "run.json").unlink()
    (folder / "run.json").symlink_to("run.json")


def sparse(folder: Path) -> None:
    """A run.json of 100 MB."""
    with (folder / "run.json").open("wb") as stream:
        stream.truncate(100_000_000)


def as_folder(name: str) -> Break:
    """A directory where a record should be."""

    def apply(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return apply


def second(folder: Path) -> None:
    """The same point under another index."""
    twin = to_json(point(folder.name)) | {"index": 0}
    (folder / "points" / "1-c64.json").write_text(json.dumps(twin))


def nowhere(folder: Path) -> None:
    """A point that is a link to nothing."""
    (folder / "points" / "1-c64.json").symlink_to("/no/such/file")


def pipe(folder: Path) -> None:
    """A pipe where the outcome should be."""
    (folder / "outcome.json").unlink()
    os.mkfifo(folder / "outcome.json")


POINT = "points/0-c64.json"
KINDS: dict[str, tuple[Break, str]] = {
    "torn": (replace_by("run.json", b'{"schema": 1, "run_id": "t'), "not a JSON record"),
    "empty": (replace_by("run.json", b""), "not a JSON record"),
    "foreign": (replace_by("run.json", b'{"name": "my experiment", "lr": 0.1}'), "engine"),
    "list": (replace_by("run.json", b"[1, 2]"), "expected a JSON object, found list"),
    "future": (edit("run.json", lambda d: d | {"schema": 99}), "schema 99, this program reads 1"),
    "wrong-schema": (edit(POINT, lambda d: d | {"schema": "1"}), "schema '1'"),
    "nan": (edit(POINT, lambda d: d | {"duration_s": float("nan")}), "NaN is no number"),
    "negative": (edit(POINT, lambda d: d | {"duration_s": -5.0}), "impossible value -5.0"),
    "infinite": (replace_by(POINT, b'{"duration_s": 1e999}'), "field 'run_id' is missing"),
    "loop": (loop, "a symbolic link, not a regular file"),
    "huge": (sparse, "100000000 bytes, records are under"),
    "binary": (replace_by("run.json", bytes(range(256)) * 8), "not a JSON record"),
    "not-utf8": (replace_by(POINT, '{"name": "é"}'.encode("latin-1")), "not a JSON record"),
    "folder": (as_folder("run.json"), "not a regular file"),
    "folder-point": (as_folder(POINT), "not a regular file"),
    "dangling": (nowhere, "a symbolic link, not a regular file"),
    "pipe": (pipe, "not a regular file"),
    "twice": (second, "holds point 0-c64"),
    "other-run": (edit(POINT, lambda d: d | {"run_id": "x"}), "belongs to run 'x'"),
    "deep": (replace_by("run.json", b"[" * 200_000), "not a JSON record"),
    "no-plan": (edit("run.json", lambda d: d | {"plan": 7}), "plan: 7, expected an object"),
    "counts": (edit(POINT, lambda d: d | {"completed": 600}), "only 512 were planned"),
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs with one good run in it."""
    completed_run(tmp_path / "runs" / "good", "good")
    return tmp_path / "runs"


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_directory_costs_one_line_and_not_the_table(
    runs: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    breaks, words = KINDS[kind]
    breaks(completed_run(runs / kind, kind))
    assert main(["table", str(runs), "--columns", "run,verdict"]) == 1
    shown = capsys.readouterr()
    assert ["good", "VALID"] in [line.split() for line in shown.out.splitlines()]
    told = [line for line in shown.err.splitlines() if kind in line]
    assert (len(told), words in shown.err, "Traceback" in shown.err) == (1, True, False), shown.err
    assert shown.err.startswith("warning: ")
    assert len(shown.err) < 700


def test_all_of_them_together_still_leave_the_good_run(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, (breaks, _) in KINDS.items():
        breaks(completed_run(runs / kind, kind))
    main(["table", str(runs), "--columns", "run,verdict"])
    shown = capsys.readouterr()
    assert ["good", "VALID"] in [line.split() for line in shown.out.splitlines()]
    assert len(shown.err.splitlines()) == len(KINDS)


def test_a_folder_without_run_json_is_no_run_and_says_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunDir(completed_run(runs / "bare", "bare")).run_json.unlink()
    assert main(["table", str(runs), "--columns", "run,verdict"]) == 1
    shown = capsys.readouterr()
    assert "good" in shown.out
    assert "bare: no run.json, its records are left out" in shown.err


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter."""
    with tempfile.TemporaryDirectory(prefix="broken-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("where", ["", "run.json", "points", POINT])
def test_what_may_not_be_read_costs_a_line(
    open_folder: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "shut"):
        for path in (folder := completed_run(open_folder / name, name), *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    (open_folder / "shut" / where).chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        assert main(["table", str(open_folder), "--columns", "run,verdict"]) == 1
    finally:
        os.seteuid(user)
        (open_folder / "shut" / where).chmod(0o755)
    shown = capsys.readouterr()
    assert ["good", "VALID"] in [line.split() for line in shown.out.splitlines()]
    assert len(shown.err.splitlines()) == 1
    assert "shut" in shown.err
    assert "Permission denied" in shown.err
