"""The published figures: all of them, their divisors, their frontier, where they are from."""

from __future__ import annotations

import csv
import io

import pytest

from analysis.__main__ import main
from analysis.frontier import on_frontier, sure_of_frontier
from analysis.reference import Reference, load_reference, reference_frame

Capture = pytest.CaptureFixture[str]
CONCURRENCIES = (64, 128, 256, 512, 1024, 2048, 3072, 4096, 5120)


def places(reference: Reference, marks: list[bool]) -> set[tuple[int, int]]:
    """(prefill endpoints, concurrency) of the marked points."""
    return {
        (point.prefill_endpoints, point.concurrency)
        for point, mark in zip(reference.points, marks, strict=True)
        if mark
    }


def test_the_reference_has_the_figures_39_points() -> None:
    points = load_reference().points
    assert len(points) == 39
    assert len({(point.topology, point.concurrency) for point in points}) == 39
    missing = {(n, c) for n in range(4, 9) for c in CONCURRENCIES} - {
        (point.prefill_endpoints, point.concurrency) for point in points
    }
    assert missing == {(4, 2048), (4, 3072), (5, 2048), (5, 5120), (7, 5120), (8, 5120)}


def test_the_divisors_of_the_five_shapes_leave_two_gpus_idle_with_five_and_seven() -> None:
    shapes = load_reference().shapes()
    assert [
        (s.topology, s.serving_gpus, s.allocated_gpus, s.idle_gpus) for s in shapes
    ] == [
        ("dep8_prefill4x2", 16, 16, 0),
        ("dep8_prefill5x2", 18, 20, 2),
        ("dep8_prefill6x2", 20, 20, 0),
        ("dep8_prefill7x2", 22, 24, 2),
        ("dep8_prefill8x2", 24, 24, 0),
    ]  # fmt: skip
    assert all(s.serving_gpus == 2 * s.prefill_endpoints + 8 for s in shapes)


def test_at_low_concurrency_all_shapes_serve_the_same_tokens_so_the_divisor_is_serving_gpus() -> (
    None
):
    for concurrency in (256, 512, 1024):
        totals = [
            point.total_tps_per_gpu * point.serving_gpus
            for point in load_reference().points
            if point.concurrency == concurrency
        ]
        assert max(totals) / min(totals) < 1.06


def test_the_frontier_is_the_articles() -> None:
    """Article, Figure 2, from the right: 6x at 5120 and 4096, 5x at 3072 and 4096, 4x at 4096 and
    5120, then 4x up to 512; whatever else is as good is so within the reading error only."""
    reference = load_reference()
    drawn, sure = (places(reference, marks) for marks in reference.frontier())
    article = {(6, 5120), (6, 4096), (5, 3072), (5, 4096), (4, 4096), (4, 5120)}
    article |= {(4, 512), (4, 256), (4, 128), (4, 64)}
    assert article <= drawn
    assert drawn - article == {(4, 1024), (6, 128), (7, 64), (8, 64)}
    assert sure <= article


def test_equal_points_are_on_the_frontier_together_and_beaten_ones_are_not() -> None:
    assert on_frontier([(1, 5), (1, 5), (1, 4), (2, 5)]) == [False, False, False, True]
    assert on_frontier([(1, 5), (1, 5), (2, 4), (0, 9)]) == [True, True, True, True]
    assert on_frontier([]) == []


def test_a_point_is_sure_only_when_both_errors_together_cannot_hide_a_better_one() -> None:
    points = [(10.0, 100.0), (9.9, 150.0), (5.0, 300.0)]
    assert on_frontier(points) == [True, True, True]
    assert sure_of_frontier(points, (0.1, 1.0)) == [False, True, True]
    assert sure_of_frontier(points, (0.0, 0.0)) == [True, True, True]


def test_the_mark_the_errors_and_the_lengths_are_told() -> None:
    reference = load_reference()
    assert (reference.mark_tps_per_gpu, reference.mark_gsm8k) == (25000, 0.88)
    assert (reference.error_tps_per_gpu, reference.error_tps_per_user) == (100, 0.1)
    assert (reference.isl, reference.osl, reference.range_ratio) == (8192, 1024, 0.8)
    assert sum(point.approximate for point in reference.points) == 4


def test_the_per_allocated_gpu_figure_counts_idle_gpus() -> None:
    frame = reference_frame(load_reference())
    row = frame[(frame["topology"] == "dep8_prefill7x2") & (frame["concurrency"] == 4096)].iloc[0]
    assert row["total_tps_per_gpu"] == 25530
    assert row["total_tps_per_allocated_gpu"] == pytest.approx(25530 * 22 / 24)


def test_the_command_prints_shapes_points_and_provenance(capsys: Capture) -> None:
    assert main(["reference"]) == 0
    shown = capsys.readouterr().out
    assert "dep8_prefill5x2    18          20          2" in shown
    assert "25730.0      25730.0        25.5  yes" in shown
    assert "error: each figure +-100 total tok/s/GPU and +-0.1 generation tok/s/user" in shown
    assert "mark: 25,000 total tok/s per serving GPU at GSM8K 0.88" in shown


def test_the_command_writes_csv_and_markdown(capsys: Capture) -> None:
    assert main(["reference", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 39
    assert rows[0]["total_tps_per_gpu"] == "2550.0"
    assert main(["reference", "--format", "markdown"]) == 0
    assert "| dep8_prefill6x2 | 5120 | 20 | 20 | 25730.0 |" in capsys.readouterr().out
