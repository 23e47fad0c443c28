"""Figures for papers: what is in them, what is not, and that they travel well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from analysis.__main__ import main
from analysis.plot_strips import bottleneck, over_time, startup
from analysis.plots import Look, latency, pareto
from analysis.reference import load_reference
from tests.analysis_runs import completed_run, point, write_run
from tests.report_runs import HOSTILE, five_shapes, hostile_run, rehearsal_run
from tests.test_report_page import frame_of

Capture = pytest.CaptureFixture[str]
LOOK = Look(width_mm=88)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The five published shapes; the 4x2 run has an INVALID row at 5120."""
    return frame_of(five_shapes(tmp_path_factory.mktemp("plots")))


def drawn_points(figure: Figure, axes: int = 0) -> set[tuple[float, float]]:
    """The places of all marks of our own (the published ones are grey)."""
    return {
        (round(x, 6), round(y, 6))
        for line in figure.axes[axes].lines
        if line.get_color() not in ("#767676", "#b9bec6")
        for x, y in np.asarray(line.get_xydata(), dtype=float).tolist()
    }


def labels(figure: Figure, axes: int = 0) -> list[str]:
    """The words of the legend."""
    return figure.axes[axes].get_legend_handles_labels()[1]


def test_the_pareto_plot_has_every_row_that_counts_and_no_other(shapes: pd.DataFrame) -> None:
    figure = pareto(shapes, LOOK, None)
    valid = shapes[shapes["verdict"] == "VALID"]
    assert len(valid) == 38
    wanted = zip(valid["generation_tps_per_user"], valid["total_tps_per_gpu"], strict=True)
    assert drawn_points(figure) == {(round(x, 6), round(y, 6)) for x, y in wanted}
    assert labels(figure) == ["frontier", *sorted(set(shapes["topology"]))]


def test_the_divisor_is_on_the_axis_and_moves_the_points(shapes: pd.DataFrame) -> None:
    serving = pareto(shapes, LOOK, None)
    allocated = pareto(shapes, Look(divisor="allocated"), None)
    assert serving.axes[0].get_ylabel() == "total tok/s per serving GPU"
    assert allocated.axes[0].get_ylabel() == "total tok/s per allocated GPU"
    row = shapes[(shapes["topology"] == "dep8_prefill7x2") & (shapes["concurrency"] == 4096)]
    x, y = row["generation_tps_per_user"].item(), row["total_tps_per_gpu"].item()
    assert (round(x, 6), round(y * 22 / 24, 6)) in drawn_points(allocated)


def test_the_published_curve_is_drawn_with_its_error(shapes: pd.DataFrame) -> None:
    figure = pareto(shapes, LOOK, load_reference())
    bars = [bar for bar in figure.axes[0].containers if isinstance(bar, ErrorbarContainer)]
    assert len(bars) == 5
    assert sum(len(np.asarray(bar.lines[0].get_xdata())) for bar in bars) == 39
    assert "\u00b1100 tok/s/GPU, \u00b10.1 tok/s/user" in figure.axes[0].texts[0].get_text()
    per_role = pareto(shapes, Look(divisor="decode"), load_reference())
    assert per_role.axes[0].containers == []


def test_latency_is_drawn_against_concurrency_with_ticks_at_what_was_measured(
    shapes: pd.DataFrame,
) -> None:
    figure = latency(shapes, Look(statistic="p99"))
    ttft, tpot = figure.axes
    assert (ttft.get_ylabel(), tpot.get_ylabel()) == ("TTFT p99, ms", "TPOT p99, ms")
    assert ttft.get_xscale() == ttft.get_yscale() == "log"
    assert set(ttft.get_xticks()) == {64, 128, 256, 512, 1024, 2048, 3072, 4096}


def test_series_differ_in_mark_and_not_in_colour_alone(shapes: pd.DataFrame) -> None:
    figure = pareto(shapes, LOOK, None)
    marks = [line.get_marker() for line in figure.axes[0].lines if str(line.get_label())[0] != "_"]
    assert len({mark for mark in marks if mark != "None"}) == 5


def test_a_rehearsal_has_its_word_across_every_figure(tmp_path: Path) -> None:
    frame = frame_of(rehearsal_run(tmp_path))
    line = {"role": "decode", "t": [0.0, 1.0], "v": [1.0, 2.0]}
    times = {"panels": [{"name": "n", "unit": "u", "lines": [line]}], "points": []}
    workers = [{"process": "p", "node": "n", "phases": [["launch", 0.0, 1.0]]}]
    figures = [
        pareto(frame, LOOK, None),
        latency(frame, LOOK),
        startup("r", workers, LOOK, True),
        over_time("r", times, LOOK, True),
    ]
    for figure in figures:
        for axes in figure.axes:
            assert any("REHEARSAL" in text.get_text() for text in axes.texts)


def test_the_bottleneck_strip_has_a_letter_in_every_cell(shapes: pd.DataFrame) -> None:
    words = ["prefill" if c > 1000 else "" for c in shapes["concurrency"]]
    figure = bottleneck(shapes.assign(bottleneck=words), LOOK)
    assert figure is not None
    letters = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(set(letters)) == ["?", "P"]
    assert len(letters) == 38
    assert bottleneck(shapes.assign(bottleneck=""), LOOK) is None


@pytest.mark.parametrize(
    ("form", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_files_are_the_same_each_time_and_bring_their_fonts(
    tmp_path: Path, form: str, magic: bytes
) -> None:
    folder = completed_run(tmp_path / "r")
    contents = []
    for name in ("a", "b"):
        command = ["plot", str(folder), "--out", str(tmp_path / name), "--format", form]
        assert main([*command, "--width-mm", "88"]) == 0
        contents.append((tmp_path / name / f"pareto.{form}").read_bytes())
    assert contents[0] == contents[1]
    assert contents[0].startswith(magic)
    if form == "svg":
        assert b"<text" not in contents[0]
    if form == "pdf":
        assert b"/FontFile2" in contents[0]


def test_two_loads_never_share_axes(tmp_path: Path, capsys: Capture) -> None:
    short = point(index=1, isl=1024, input_range=[819, 1024], total_input_tokens=512 * 922)
    short.server.prefill_prompt_tokens = short.server.decode_external_tokens = 512 * 921.0
    folder = write_run(tmp_path / "r", points=[point(), short])
    assert main(["plot", str(folder), "--out", str(tmp_path / "p")]) == 0
    names = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert {
        "pareto-8192-1024-inferencemax-0.8.png",
        "pareto-1024-1024-inferencemax-0.8.png",
    } <= names


def test_a_hostile_name_makes_no_path_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "p"
    assert main(["plot", str(hostile_run(tmp_path)), "--out", str(out)]) == 0
    assert "/" in HOSTILE
    assert {path.parent for path in out.rglob("*")} == {out}


def test_nothing_that_may_be_drawn_is_one_message(tmp_path: Path, capsys: Capture) -> None:
    folder = completed_run(tmp_path / "r", failed=5, completed=507)
    assert main(["plot", str(folder), "--out", str(tmp_path / "p")]) == 2
    assert capsys.readouterr().err == (
        "no point may be drawn (runs: 1, points: 1): 1 INVALID left out;"
        " `python -m analysis table` has the reasons\n"
    )
    assert not (tmp_path / "p").exists()


def test_a_width_no_paper_has_is_refused(tmp_path: Path, capsys: Capture) -> None:
    folder = completed_run(tmp_path / "r")
    assert main(["plot", str(folder), "--out", str(tmp_path / "p"), "--width-mm", "5"]) == 2
    assert "60 to 400 are possible" in capsys.readouterr().err


def test_the_table_does_not_pay_for_the_plots() -> None:
    code = (
        "import sys; import analysis.__main__ as m; m.main(['columns']);"
        "sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
