"""The report as a file: self-contained, escaped, honest about what it leaves out."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.best import headlines
from analysis.drawn import drawn, not_comparable
from analysis.facts import tidy
from analysis.load import load
from analysis.metrics import compute_all
from analysis.palette import style
from analysis.plain_rows import plain_rows
from analysis.provenance import split
from analysis.reference import load_reference
from analysis.report_data import pack, report_data
from analysis.report_page import embed
from jobs.store import RunDir
from tests.analysis_runs import completed_run, outcome, point, run_json, write_run
from tests.report_runs import (
    HOSTILE,
    add_series,
    add_start_up,
    five_shapes,
    hostile_run,
    rehearsal_run,
    shape_run,
)

Capture = pytest.CaptureFixture[str]
SHAPES = load_reference().shapes()


def frame_of(*folders: Path) -> pd.DataFrame:
    """The computed rows of some runs."""
    return compute_all(tidy(load(folders))).reset_index(drop=True)


def data_of(*folders: Path) -> dict[str, Any]:
    """What the page of some runs holds."""
    loaded = load(folders)
    return report_data(loaded, compute_all(tidy(loaded)))


class Outside(HTMLParser):
    """Everything in a page that could make a browser fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fetching = {"src", "href", "srcset", "data", "action", "poster", "background"}
        self.found += [(tag, name, told) for name, told in attrs if name in fetching]
        if tag in ("link", "iframe", "object", "embed", "img", "base"):
            self.found.append((tag, "", None))


def test_the_page_is_one_file_that_refers_to_nothing_outside(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert main(["report", str(completed_run(tmp_path / "r")), "--out", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    parser = Outside()
    parser.feed(text)
    assert parser.found == []
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text.replace("&#x27;", "'")


def test_data_cannot_end_its_element_or_bring_its_own(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert (
        main(["report", str(hostile_run(tmp_path)), "--out", str(target), "--title", HOSTILE]) == 0
    )
    text = target.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script") == 2
    assert "<img" not in text
    assert "\u202e" not in text
    (block,) = re.findall(r'id="data">(.*?)</script>', text, re.S)
    assert HOSTILE.replace("\u202e", "\\u202e") in json.loads(block)["values"]["run"]["all"]


def test_embedded_json_is_the_same_object_without_a_single_bracket() -> None:
    data = {HOSTILE: [1.5, None, "\u2028</script>"]}
    text = embed(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data
    with pytest.raises(ValueError, match="JSON compliant"):
        embed(float("nan"))


def test_an_invalid_row_is_in_the_table_and_nowhere_else(tmp_path: Path) -> None:
    folder = shape_run(tmp_path, SHAPES[2], failed_at=5120)
    data, frame = data_of(folder), frame_of(folder)
    row = list(frame["concurrency"]).index(5120)
    assert frame["verdict"][row] == "INVALID"
    assert frame["total_tps_per_gpu"].idxmax() == row
    assert data["drawn"] == [1] * row + [0]
    assert all("c5120" not in where for _, _, where in headlines(frame))
    assert data["reasons"][0]["where"] == [f"{frame['run'][row]} c5120"]


def test_where_every_row_is_invalid_there_is_no_best_row(tmp_path: Path) -> None:
    frame = frame_of(completed_run(tmp_path / "r", failed=5, completed=507))
    assert list(headlines(frame)) == [
        ("no best row", "-", "no row may be quoted: see the verdicts")
    ]


def test_a_best_figure_is_the_mean_of_a_points_repeats(tmp_path: Path) -> None:
    """10 and 20 of one point are 15, which 18 twice beats: the luckiest repeat is no best."""
    base = frame_of(completed_run(tmp_path / "r"))
    frame = pd.concat([base] * 4, ignore_index=True)
    frame["concurrency"], frame["repeat"] = [64, 64, 128, 128], [1, 2, 1, 2]
    frame["point"] = ["c64", "c64-repeat2", "c128", "c128-repeat2"]
    frame["total_tps_per_gpu"] = [10.0, 20.0, 18.0, 18.0]
    label, figure, where = next(iter(headlines(frame)))
    assert (label, figure) == ("most total per serving GPU", "18.0 tok/s/GPU")
    assert where.endswith("c128, mean of 2 repeats: VALID")


def test_the_table_begins_with_what_tells_its_rows_apart(tmp_path: Path) -> None:
    """Rate, repeat and goodput stand in it where they were asked for, as in the text table."""
    folder = completed_run(tmp_path / "plain")
    plain = [one["name"] for one in data_of(folder)["columns"] if one["place"] >= 0]
    assert "repeat" not in plain
    loaded = load([folder])
    frame = pd.concat([compute_all(tidy(loaded))] * 2, ignore_index=True)
    frame["repeat"], frame["request_rate"], frame["goodput_share"] = [1, 2], 4.0, 0.5
    columns = [one for one in report_data(loaded, frame)["columns"] if one["place"] >= 0]
    names = [one["name"] for one in sorted(columns, key=lambda one: int(one["place"]))]
    assert names[:5] == ["verdict", "topology", "concurrency", "request_rate", "repeat"]
    assert "goodput_share" in names


def test_without_scripts_the_rows_and_their_reasons_stand_there_as_text(tmp_path: Path) -> None:
    loaded = load([completed_run(tmp_path / "r", failed=5, completed=507)])
    frame = compute_all(tidy(loaded))
    many = pd.concat([frame] * 101, ignore_index=True)
    many["topology"] = HOSTILE
    text = plain_rows(report_data(loaded, many), many)
    assert text.count("<tr>") == 1 + 100
    assert "the first 100 of 101 points" in text
    assert re.search(r"<li>INVALID, 101 points: [^<]*5 [^<]*failed", text)
    assert "<script" not in text
    assert "<img" not in text
    assert "every point" in plain_rows(report_data(loaded, frame), frame)


def test_rehearsal_rows_are_drawn_only_in_a_report_that_is_wholly_a_rehearsal(
    tmp_path: Path,
) -> None:
    made_up, real = rehearsal_run(tmp_path), completed_run(tmp_path / "real")
    assert drawn(frame_of(made_up)).rehearsal
    assert data_of(made_up)["drawn"] == [1]
    assert "REHEARSAL" in data_of(made_up)["rehearsal"]
    both = data_of(made_up, real)
    assert (both["drawn"], both["rehearsal"]) == ([0, 1], "")


def test_a_rehearsal_says_so_in_title_banner_and_cards(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    main(["report", str(rehearsal_run(tmp_path)), "--out", str(target)])
    text = target.read_text(encoding="utf-8")
    assert "<title>REHEARSAL: " in text
    assert '<p class="banner" role="alert">REHEARSAL: stand-in servers, made-up figures' in text
    assert text.count("REHEARSAL, not a result") == 4


def test_the_published_curve_stands_only_beside_its_own_model_and_lengths(tmp_path: Path) -> None:
    reference = load_reference()
    same = frame_of(shape_run(tmp_path, SHAPES[0]))
    assert not_comparable(same, reference) == ""
    other = frame_of(completed_run(tmp_path / "other"))
    assert "no row here is" in not_comparable(other, reference)
    shorter = same.assign(isl=1024)
    assert "8192/1024" in not_comparable(shorter, reference)
    assert "rehearsal" in not_comparable(frame_of(rehearsal_run(tmp_path)), reference)


def test_columns_are_packed_without_losing_a_value() -> None:
    words = pd.Series(["a", None, "b", "a"], dtype="string")
    assert pack(words, "text") == {"words": ["a", "b"], "codes": [0, -1, 1, 0]}
    assert pack(pd.Series(["a", "a"], dtype="string"), "text") == {"all": "a"}
    assert pack(pd.Series([1.23456789, None, 2e9]), "real") == {
        "values": [1.23457, None, 2000000000]
    }
    assert pack(pd.Series([64, 64], dtype="Int64"), "whole") == {"all": 64}
    assert pack(pd.Series([float("inf"), 1.0]), "real") == {"values": [None, 1]}


def test_provenance_tells_what_all_runs_share_from_what_differs() -> None:
    runs = [{"engine": "vllm 1", "run": "a"}, {"engine": "vllm 1", "run": "b", "git": "c0ffee"}]
    assert split(runs) == ({"engine": "vllm 1"}, ["run", "git"])
    assert split(runs[:1]) == ({}, ["engine", "run"])


def test_user_and_host_are_not_passed_on(tmp_path: Path) -> None:
    told = {"user": "someone", "host": "login7", "git_sha": "c0ffee", "git_dirty": True}
    folder = shape_run(tmp_path, SHAPES[0], provenance=told)
    text = json.dumps(data_of(folder)["provenance"])
    assert "c0ffee and uncommitted changes" in text
    assert "someone" not in text
    assert "login7" not in text


def test_runs_that_did_not_complete_are_told_first_and_without_their_folder(
    tmp_path: Path,
) -> None:
    completed_run(tmp_path / "runs/good")
    cause = "canary: HTTP 500; see /scratch/somebody/sweep/bad/canary.json"
    write_run(
        tmp_path / "runs/bad", run_json("bad"), [point("bad")], [], outcome("bad", "failed", cause)
    )
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    head = page[page.index("<header>") : page.index("</header>")]
    assert '<a href="#why-section">1 of 2 runs did not complete' in head
    assert "HTTP 500; see canary.json" in page
    assert "/scratch/somebody" not in page


def test_start_up_is_told_worker_by_worker(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r")
    assert "startup" not in data_of(folder)
    add_start_up(folder)
    prefill, decode = data_of(folder)["startup"]["run-1"]
    assert (prefill["process"], prefill["node"], decode["node"]) == ("prefill0", "n1", "n2")
    assert prefill["phases"][0] == ["launch", 0.0, 2.0]
    assert decode["phases"][-1][2] == 9.0


def test_series_are_thinned_and_ranks_taken_together_as_said(tmp_path: Path) -> None:
    folder = completed_run(tmp_path / "r")
    assert "times" not in data_of(folder)
    add_series(folder)
    times = data_of(folder)["times"]["run-1"]
    panels = {panel["name"]: panel["lines"] for panel in times["panels"]}
    assert set(panels) == {"Requests running", "KV blocks in use, fullest rank"}
    (running,) = panels["Requests running"]
    (kv,) = panels["KV blocks in use, fullest rank"]
    assert times["step_s"] == 2.0
    assert (running["role"], set(running["v"]), len(running["t"])) == ("decode", {8.0}, 50)
    assert set(kv["v"]) == {60.0}
    assert times["points"] == [{"name": "c64", "from": 0.0, "to": 99.0}]


def test_only_the_first_runs_bring_their_series_and_the_page_says_so(tmp_path: Path) -> None:
    for number in range(25):
        add_series(completed_run(tmp_path / f"{number:02d}", f"run-{number:02d}"))
    data = data_of(tmp_path)
    assert sorted(data["times"]) == [f"run-{number:02d}" for number in range(24)]
    assert data["times_left_out"].startswith("time series are in this page for the first 24 of 25")


def test_forty_nine_series_all_look_different() -> None:
    looks = {(style(n).colour, style(n).mark, style(n).dash) for n in range(49)}
    assert len(looks) == 49


def test_five_shapes_make_one_page_with_a_row_for_each_point(
    tmp_path: Path, capsys: Capture
) -> None:
    target = tmp_path / "report.html"
    assert main(["report", str(five_shapes(tmp_path / "runs")), "--out", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 5 runs, 39 points\n"
    assert target.stat().st_size < 200_000


def test_nothing_to_show_is_one_clear_message_and_no_file(tmp_path: Path, capsys: Capture) -> None:
    folder = write_run(tmp_path / "r", points=[])
    target = tmp_path / "report.html"
    assert main(["report", str(folder), "--out", str(target)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "no point could be read (runs found: 1): no report written" in shown
    assert not target.exists()


def test_only_broken_runs_are_told_one_by_one_and_make_no_report(
    tmp_path: Path, capsys: Capture
) -> None:
    store = RunDir(completed_run(tmp_path / "r"))
    store.run_json.write_text("{", encoding="utf-8")
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "x.html")]) == 2
    warned, message = capsys.readouterr().err.splitlines()
    assert warned.startswith("warning: ")
    assert "no report written" in message


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: Capture) -> None:
    folder = completed_run(tmp_path / "r")
    assert main(["report", str(folder), "--out", str(tmp_path / "no" / "x.html")]) == 2
    assert "--out" in capsys.readouterr().err
