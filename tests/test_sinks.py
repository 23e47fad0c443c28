"""Rows in MLflow's and W&B's own stores, read back with their own readers where installed."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.sinks import points
from tests.analysis_runs import completed_run, point, run_json, write_run
from tests.test_analysis_metrics import frame_of

Capture = pytest.CaptureFixture[str]


def needs(name: str) -> pytest.MarkDecorator:
    """Skips where the extra is not installed."""
    absent = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(absent, reason=f"{name} is not installed: pip install -e '.[{name}]'")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run with one row that counts and one that does not."""
    bad = point("r", index=1, concurrency=128, failed=1, completed=1023)
    return write_run(tmp_path / "r", run_json("r"), [point("r"), bad])


def test_a_row_is_a_name_words_and_numbers_and_nothing_missing(tmp_path: Path) -> None:
    ((name, words, numbers),) = points(frame_of(completed_run(tmp_path / "r")))
    assert name == "run-1-c64"
    assert (words["verdict"], words["topology"]) == ("VALID", "dep8_prefill4x2")
    assert numbers["total_tps_per_gpu"] == pytest.approx(512 * 8295 / 1600)
    assert "client_cpu_share" not in numbers
    assert "reasons" not in words


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_sink_that_is_not_installed_says_how_to_get_it(
    runs: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} is installed")
    assert main(["sink", name, str(runs), "--store", str(tmp_path / "s.db")]) == 2
    shown = capsys.readouterr()
    assert f"pip install 'nvl72-launcher[{name}]'" in shown.err
    assert not (tmp_path / "s.db").exists()


def test_mlflow_wants_a_database_file(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["sink", "mlflow", str(runs), "--store", str(tmp_path / "mlruns")]) == 2
    assert "a file ending in .db or .sqlite" in capsys.readouterr().err


@needs("mlflow")
def test_mlflow_reads_back_what_was_measured(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["sink", "mlflow", str(runs), "--store", str(tmp_path / "store.db")]) == 0
    shown = capsys.readouterr()
    assert "1 rows in " in shown.out
    assert "1 INVALID left out" in shown.err
    mlflow: Any = importlib.import_module("mlflow")
    (found,) = mlflow.search_runs(experiment_names=["nvl72-launcher"], output_format="list")
    assert found.data.tags["verdict"] == "VALID"
    assert found.data.params["topology"] == "dep8_prefill4x2"
    assert found.data.metrics["concurrency"] == 64


@needs("wandb")
def test_wandb_keeps_an_offline_run(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["sink", "wandb", str(runs), "--store", str(tmp_path / "s"), "--all"]) == 0
    assert len(list((tmp_path / "s" / "wandb").glob("offline-run-*"))) == 2
