"""Where results are put, and what names that other people chose do there."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.safetext import latex_cell, markdown_cell
from analysis.saving import frame_bytes, save
from jobs.store import write_text
from tests.analysis_runs import completed_run, outcome, point, run_json, write_run

Capture = pytest.CaptureFixture[str]


def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    save(pipe, b"table")
    reader.join(timeout=60)
    assert read == [b"table"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_records_take_the_place_of_files_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="is no regular file"):
        write_text(pipe, "x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_is_followed_and_a_circle_of_links_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "latest.csv").symlink_to(tmp_path / "a.csv")
    save(tmp_path / "latest.csv", b"1")
    save(tmp_path / "latest.csv", b"2")
    assert (tmp_path / "a.csv").read_bytes() == b"2"
    assert (tmp_path / "latest.csv").is_symlink()
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(AnalysisError, match="cannot be written"):
        save(tmp_path / "round", b"1")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[3]x", "{[}3]x"),
        ("*x", "{*}x"),
        ("a|b", r"a\textbar{}b"),
        ("x[3]", "x[3]"),
        ("$\\frac{$", r"\$\textbackslash{}frac\{\$"),
        ("", ""),
    ],
)
def test_latex_takes_no_name_for_a_command_or_an_option(name: str, shown: str) -> None:
    assert latex_cell(name) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("dep8_prefill4x2", "dep8_prefill4x2"),
        ("_x_", r"\_x\_"),
        ("a*b*", r"a\*b\*"),
        ("~~x~~", r"\~\~x\~\~"),
        ("$x$", r"\$x\$"),
        ("a|b\\", r"a\|b\\"),
        ("<b>&", "&lt;b>&amp;"),
    ],
)
def test_markdown_starts_nothing_within_a_name(name: str, shown: str) -> None:
    assert markdown_cell(name) == shown


def test_no_tidy_csv_has_a_formula_in_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"process": ["=1+1", "@x", "prefill0", "a\x1b[2J"], "t_s": [-1.5] * 4})
    lines = frame_bytes(frame, tmp_path / "x.csv").decode().splitlines()
    assert lines[1:] == ["'=1+1,-1.5", "'@x,-1.5", "prefill0,-1.5", r"a\x1b[2J,-1.5"]


@pytest.mark.parametrize("name", ["$\\frac{$", "a$x$b", "_hidden", "n" * 3000, "\u65e5\u672c"])
def test_a_series_may_be_called_anything(tmp_path: Path, capsys: Capture, name: str) -> None:
    described = run_json(labels={"topology": name})
    run = write_run(tmp_path / "r", described, [point()], end=outcome())
    plot = ["plot", str(run), "--out", str(tmp_path / "p"), "--reference", "never"]
    assert main([*plot, "--format", "svg"]) == 0
    assert capsys.readouterr().err == ""


WRONG = {
    "--filter": ("", "not a condition"),
    "--sort": ("", "no name given"),
    "--group": (" , ", "no name given"),
    "--columns": (",", "no name given"),
    "--pivot": ("concurrency:concurrency:total_tps", "rows and columns are both concurrency"),
    "--out": ("x.xlsx", "suffix is none of"),
}


@pytest.mark.parametrize("option", WRONG)
def test_an_option_without_a_meaning_is_one_error(
    tmp_path: Path, capsys: Capture, option: str
) -> None:
    value, words = WRONG[option]
    assert main(["table", str(completed_run(tmp_path / "r")), option, value]) == 2
    shown = capsys.readouterr()
    assert (shown.out, words in shown.err) == ("", True)


def test_a_pivot_tells_of_rows_that_have_no_place_in_it(tmp_path: Path, capsys: Capture) -> None:
    described = run_json("b", labels={"model": "m"})
    write_run(tmp_path / "b", described, [point("b")], end=outcome("b"))
    completed_run(tmp_path / "a", "a")
    assert main(["table", str(tmp_path), "--pivot", "concurrency:topology:total_tps"]) == 0
    assert "1 without concurrency or topology left out" in capsys.readouterr().out
