"""The quick rows of the fault matrix, and the page that all rows write."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.fault_matrix import local_rows, measured, slurm_rows, striking
from tests.fault_matrix.places import PLACES
from tests.fault_matrix.row import Row

ALL = [row for place in PLACES for row in place.rows]


@pytest.mark.parametrize(
    "row", [row for row in local_rows.ROWS if row.quick], ids=lambda row: row.name
)
def test_a_run_survives(row: Row, tmp_path: Path) -> None:
    assert row.failings(row.strike(tmp_path)) == []


@pytest.mark.slurm
@pytest.mark.long
@pytest.mark.parametrize(
    "row", [row for row in slurm_rows.ROWS if row.quick], ids=lambda row: row.name
)
def test_a_run_on_slurm_survives(row: Row, slurm_cluster: Cluster, tmp_path: Path) -> None:
    assert row.problems(row.strike(tmp_path)) == []


def test_the_page_is_what_the_measurements_say() -> None:
    assert measured.PAGE.read_text() == measured.page(PLACES, measured.load())


def test_every_measurement_is_of_a_row_and_keeps_its_promises() -> None:
    rows = {row.name: row for row in ALL}
    assert len(rows) == len(ALL)
    for name, found in measured.load().items():
        assert found["problems"] == [], name
        assert rows[name].problems(measured.seen_of(found)) == [], name


def test_a_promise_that_was_not_kept_stands_above_the_tables() -> None:
    found = measured.load()
    found["router-dies"]["problems"] = ["noticed after 2.3 s, limit 2.0"]
    page = measured.page(PLACES, found)
    head = page.partition("## This machine")[0]
    assert "## Promises not kept: 1 of" in head
    assert "**router-dies** (router SIGKILL; second point)" in head
    assert "noticed after 2.3 s, limit 2.0" in head
    (line,) = [it for it in page.splitlines() if it.startswith("| router SIGKILL | second point")][
        :1
    ]
    assert "failed **(promise not kept)**" in line


def test_a_row_that_breaks_or_hangs_is_told_and_leaves_nothing() -> None:
    row = next(row for row in ALL if row.name == "prefill-sigkill")
    broken = striking.strike(replace(row, name="none of this name"), limit_s=120)
    assert broken.seen is None
    assert broken.problems[0].startswith("could not be run: StopIteration")
    slow = striking.strike(row, limit_s=0.2)
    assert slow.problems[0].startswith("could not be run: not ended within 0 s")


def test_the_command_strikes_nothing_when_asked_for_a_row_that_is_none() -> None:
    words = [sys.executable, "-m", "tests.fault_matrix", "router-dies", "router-lives"]
    done = subprocess.run(words, cwd=measured.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no row and no table 'router-lives'" in done.stderr
