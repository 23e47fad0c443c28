"""Filter, sort, group and pivot from the command line; nothing in a filter is ever executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.errors import AnalysisError
from analysis.filters import matches
from analysis.safetext import latex_cell
from analysis.tables import find
from jobs.records import Latency
from tests.analysis_runs import point, run_json, write_run
from tests.test_analysis_metrics import frame_of

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topologies of three points; the fastest point of all is an INVALID one."""
    home = tmp_path_factory.mktemp("runs")
    for name, speed in (("dep8_prefill4x2", 100.0), ("dep8_prefill6x2", 80.0)):
        labels = {"topology": name, "model": "qwen"}
        points = [
            point(name, index=n, concurrency=c, duration_s=speed,
                  e2el_ms=Latency(mean=940.0 * speed / 8))
            for n, c in enumerate((64, 256))
        ]  # fmt: skip
        cheat = point(name, index=2, concurrency=1024, failed=8, completed=8184, duration_s=1.0,
                      itl_ms=Latency())  # fmt: skip
        write_run(home / name, run_json(name, labels=labels), [*points, cheat])
    return home


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("concurrency >= 256", [1, 2, 4, 5]),
        ("64 < concurrency <= 256", [1, 4]),
        ("topology == 'dep8_prefill4x2' and verdict != 'INVALID'", [0, 1]),
        ("topology == 'dep8_prefill4x2' & concurrency == 64 | concurrency == 1024", [0, 2, 5]),
        ("~(verdict == 'VALID')", [2, 5]),
        ("not verdict == 'VALID'", [2, 5]),
        ("concurrency in [64, 1024] and topology.str.contains('6x2')", [3, 5]),
        ("concurrency not in (64, 256)", [2, 5]),
        ("concurrency.isin([256])", [1, 4]),
        ("itl_mean_ms.isna()", [2, 5]),
        ("itl_mean_ms > 0 or itl_mean_ms <= 0", [0, 1, 3, 4]),
        ("reasons.notna()", [2, 5]),
        ("completed + failed == num_prompts and failed * 2 > 1 - 1", [2, 5]),
        ("topology.str.startswith('dep8') and run.str.endswith('4x2')", [0, 1, 2]),
        ("True", [0, 1, 2, 3, 4, 5]),
        ("concurrency == -64", []),
    ],
)
def test_a_filter_means_what_pandas_query_would(runs: Path, text: str, rows: list[int]) -> None:
    frame = frame_of(runs)
    assert list(frame.index[matches(frame, text, find)]) == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("concurency > 1", "nearest: concurrency"),
        ("concurrency >", "not a condition"),
        ("", "not a condition"),
        ("concurrency", "a condition is needed here"),
        ("concurrency = 64", "not a condition"),
        ("topology > 3", "topology is text, 3.0 is a number"),
        ("concurrency == '64'", "'64' is text, concurrency is a number"),
        ("concurrency in ['a']", "not everything in the list is"),
        ("__import__('os').system('touch PWNED')", "a column is needed before the dot"),
        ("topology.__class__", "a condition is needed here"),
        ("(lambda: 1)()", "no such function"),
        ("[x for x in (1,)]", "a condition is needed here"),
        ("topology.str.contains('a', regex=True)", "no such function"),
        ("topology.map('x')", "no such test"),
        ("@open('/etc/passwd')", "not a condition"),
        ("concurrency ** 9**9 > 1", "a column, a number or 'text'"),
        ("f'{concurrency}' == 'x'", "a column, a number or 'text'"),
        ("concurrency > 1 if True else False", "a condition is needed here"),
        ("1 / 0 > concurrency", "division by zero"),
        ("(" * 500 + "True" + ")" * 500, "not a condition"),
        ("x" * 3000, "at most 2000 are read"),
    ],
)
def test_a_bad_filter_is_one_error_that_says_what_is_allowed(
    runs: Path, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AnalysisError) as caught:
        matches(frame_of(runs / "dep8_prefill4x2"), text, find)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def shown(runs: Path, capsys: Capture, *words: str) -> tuple[int, list[list[str]], Any]:
    """Exit status, the CSV's cells, and both streams."""
    status = main(["table", str(runs), "--format", "csv", *words])
    streams = capsys.readouterr()
    return status, [line.split(",") for line in streams.out.splitlines()], streams


def test_filter_sort_and_columns_go_together(runs: Path, capsys: Capture) -> None:
    words = ("--filter", "verdict == 'VALID'", "--sort", "topology:desc,concurrency:desc")
    status, rows, _ = shown(runs, capsys, *words, "--columns", "topology,concurrency")
    assert status == 0
    assert rows[1:] == [["dep8_prefill6x2", "256"], ["dep8_prefill6x2", "64"],
                        ["dep8_prefill4x2", "256"], ["dep8_prefill4x2", "64"]]  # fmt: skip


def test_a_filter_that_leaves_nothing_says_so(runs: Path, capsys: Capture) -> None:
    status, rows, streams = shown(runs, capsys, "--filter", "concurrency == 7")
    assert (status, len(rows)) == (1, 1)
    assert "warning: --filter leaves none of 6 rows" in streams.err


def test_groups_are_over_the_rows_that_count(runs: Path, capsys: Capture) -> None:
    agg = "total_tps:best,total_tps:mean,concurrency:max,run:count,ttft_median_ms:ci95"
    status, rows, _ = shown(runs, capsys, "--group", "topology", "--agg", agg)
    tokens = 7373 + 922
    assert status == 1
    assert rows[0] == ["topology", "rows", "total_tps_best", "total_tps_mean", "concurrency_max",
                       "run_count", "ttft_median_ms_ci95"]  # fmt: skip
    first = rows[1]
    assert first[:2] == ["dep8_prefill4x2", "2"]
    assert float(first[2]) == pytest.approx(2048 * tokens / 100)
    assert float(first[3]) == pytest.approx((2048 + 512) / 2 * tokens / 100)
    assert first[4:] == ["256", "2", "0.0"]
    assert len(rows) == 3


def test_a_grouped_table_tells_what_it_left_out(runs: Path, capsys: Capture) -> None:
    main(["table", str(runs), "--group", "topology"])
    assert "2 INVALID left out" in capsys.readouterr().out


def test_a_pivot_has_a_column_per_value(runs: Path, capsys: Capture) -> None:
    _, rows, _ = shown(runs, capsys, "--pivot", "concurrency:topology:total_tps:max")
    assert rows[0] == ["concurrency", "topology=dep8_prefill4x2", "topology=dep8_prefill6x2"]
    assert [row[0] for row in rows[1:]] == ["64", "256"]
    assert float(rows[2][2]) == pytest.approx(2048 * (7373 + 922) / 80)


def test_a_rehearsal_alone_is_grouped_and_called_one(tmp_path: Path, capsys: Capture) -> None:
    made_up = run_json("h", engine={"name": "rehearsal", "rehearsal": True})
    main(["table", str(write_run(tmp_path / "h", made_up)), "--group", "topology"])
    assert "REHEARSAL: all rows are made up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agg", "total_tps:mean"], "--agg goes with --group"),
        (["--group", "topology", "--pivot", "a:b:c"], "give one of them"),
        (["--group", "topolgy"], "nearest: topology"),
        (["--group", "topology", "--agg", "total_tps:mode"], "how is one of mean, median"),
        (["--group", "topology", "--agg", "run:mean"], "run is text, only count"),
        (["--group", "topology", "--agg", "isl:best"], "neither side is better"),
        (["--group", "topology", "--columns", "isl"], "grouped table; it has topology, rows"),
        (["--pivot", "concurrency:topology"], "allowed is INDEX:COLUMN:VALUE"),
        (["--sort", "isl:down"], "allowed are asc and desc"),
        (["--filter", "verdct == 'VALID'"], "nearest: verdict"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_one_line_and_status_two(
    runs: Path, capsys: Capture, words: list[str], message: str
) -> None:
    assert main(["table", str(runs), *words]) == 2
    streams = capsys.readouterr()
    assert message in streams.err
    assert (streams.out, streams.err.count("\n")) == ("", 1)


def test_latex_prints_what_stands_in_the_cells(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.tex"
    main(
        ["table", str(runs), "--columns", "topology,concurrency,itl_mean_ms", "--out", str(target)]
    )
    lines = target.read_text().splitlines()
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert r"dep8\_prefill4x2 & 64 & 12.4 \\" in lines
    assert r"dep8\_prefill4x2 & 1024 & -- \\" in lines
    assert latex_cell("50% of #1 {a}\\b^~") == (
        r"50\% of \#1 \{a\}\textbackslash{}b\textasciicircum{}\textasciitilde{}"
    )
