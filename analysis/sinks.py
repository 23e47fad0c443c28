"""Optional sinks: the table's rows as runs of MLflow or Weights & Biases, on this machine's disk.

Nothing of either library is imported unless its sink is asked for; both are extras
(`pip install nvl72-launcher[mlflow]`, `[wandb]`). MLflow writes to a local SQLite file, W&B is in
offline mode: nothing leaves the machine until the user syncs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError
from analysis.metrics import METRICS
from analysis.point_rows import point_names

PARAMETERS = tuple(m.name for m in METRICS if m.kind == "text" and m.name not in ("notes", "path"))
MEASURED = tuple(m.name for m in METRICS if m.kind != "text")
LONGEST = 500
DATABASES = (".db", ".sqlite")


def points(frame: pd.DataFrame) -> Iterator[tuple[str, dict[str, str], dict[str, float]]]:
    """Per row: its name, what it was, and what was measured; missing values are left out."""
    for (_, row), name in zip(frame.iterrows(), point_names(frame), strict=True):
        words = {
            n: str(row[n])[:LONGEST] for n in PARAMETERS if not pd.isna(row[n]) and row[n] != ""
        }
        numbers = {n: float(row[n]) for n in MEASURED if not pd.isna(row[n])}
        yield "-".join(filter(None, [row["run"], name])), words, numbers


def to_mlflow(frame: pd.DataFrame, store: Path, experiment: str) -> str:
    """One MLflow run a row, in the SQLite file `store`; its URI, for `mlflow ui`.

    A file, as MLflow's own folder format is on its way out of that library.
    """
    if store.suffix not in DATABASES:
        raise AnalysisError(
            f"--store {store}: MLflow's is a file ending in {' or '.join(DATABASES)}"
        )
    mlflow = _library("mlflow")
    uri = f"sqlite:///{store.absolute()}"
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(experiment)
    for name, words, numbers in points(frame):
        with mlflow.start_run(run_name=name):
            mlflow.log_params(words)
            mlflow.log_metrics(numbers)
            mlflow.set_tag("verdict", words.get("verdict", ""))
    return uri


def to_wandb(frame: pd.DataFrame, store: Path, project: str) -> str:
    """One offline W&B run a row under `store`; where they lie, for `wandb sync`."""
    wandb = _library("wandb")
    store.mkdir(parents=True, exist_ok=True)
    for name, words, numbers in points(frame):
        run = wandb.init(
            project=project, name=name, dir=str(store), mode="offline", config=words,
            tags=[words.get("verdict", "unknown")], reinit=True,
        )  # fmt: skip
        run.log(numbers)
        run.finish()
    return str(store.absolute() / "wandb")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise AnalysisError(
            f"sink {name}: {name} is not installed ({error}); pip install 'nvl72-launcher[{name}]'"
        ) from error


SINKS = {"mlflow": to_mlflow, "wandb": to_wandb}
