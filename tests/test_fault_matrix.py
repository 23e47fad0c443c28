"""The quick rows of the fault matrix, and the page that all rows write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.fault_matrix import local_rows, measured, slurm_rows
from tests.fault_matrix.__main__ import GROUPS
from tests.fault_matrix.row import Row

ALL = [row for _, rows in GROUPS for row in rows]


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
    assert measured.PAGE.read_text() == measured.page(GROUPS)


def test_every_measurement_is_of_a_row_and_keeps_its_promises() -> None:
    rows = {row.name: row for row in ALL}
    assert len(rows) == len(ALL)
    for name, found in measured.load().items():
        assert rows[name].problems(measured.seen_of(found)) == [], name
