"""`python -m analysis startup`: seconds of each phase of each worker's start, the slowest named."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import Loaded, each_once
from analysis.saving import put
from analysis.startup import PHASES, load_startup

KEYS = ["run", "process", "node", "role"]


def main(argv: Sequence[str]) -> int:
    """1 when nothing was started; 2 (AnalysisError) for a path or suffix that cannot be."""
    options = _parser().parse_args(argv)
    found = Loaded()
    frame, missing = startup_frame(each_once(options.runs, found))
    return put(frame, startup_text, options.out, [*found.warnings, *missing])


def startup_frame(runs: Sequence[Path]) -> tuple[pd.DataFrame, list[str]]:
    """All runs' phases, with `run` (the folder's name) in front and `took_s`; and warnings."""
    frames, warnings = [], []
    for run in runs:
        frame = load_startup(run)
        if frame.empty:
            warnings.append(f"{run}: no worker was started, or events.jsonl is missing")
        frame.insert(0, "run", pd.Series(run.name, index=frame.index, dtype="string"))
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    return whole.assign(took_s=whole["end_s"] - whole["start_s"]), warnings


def startup_wide(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per worker: seconds of each phase, `total` from the run's first start to its ready."""
    table = frame.pivot_table(
        index=KEYS, columns="phase", values="took_s", sort=False, dropna=False, observed=True
    )
    ends = frame[frame["phase"] == "ready"].set_index(KEYS)["end_s"]
    table = table.reindex(index=ends.index, columns=list(PHASES))
    seconds = [*PHASES, "total"]
    wide = table.assign(total=ends)
    return wide.astype(dict.fromkeys(seconds, "float64")).reset_index()


def startup_text(frame: pd.DataFrame) -> str:
    """The table for people, and what was slowest."""
    if frame.empty:
        return "nothing was started\n"
    table = startup_wide(frame)
    shown = table.to_string(index=False, na_rep="-", float_format=lambda value: f"{value:.1f}")
    notes = [note for _, part in table.groupby("run", sort=False) for note in slowest(part)]
    return f"{shown}\n\n" + "".join(f"{note}\n" for note in notes)


def slowest(table: pd.DataFrame) -> Iterator[str]:
    """Which worker of one run was last, with its longest phase against the others' median; the
    same of the nodes."""
    rows: list[dict[Any, Any]] = table.to_dict("records")
    known = [row for row in rows if not math.isnan(row["total"])]
    name = rows[0]["run"]
    late = [row["process"] for row in rows if math.isnan(row["total"])]
    if late:
        yield f"{name}: never ready: {', '.join(late)}"
    if not known:
        return
    last = max(known, key=lambda row: row["total"])
    phase = max(PHASES, key=lambda phase: _known(last[phase]))
    middle = statistics.median(_known(row[phase]) for row in known)
    yield (
        f"{name}: slowest worker {last['process']} on {last['node']}, ready after "
        f"{last['total']:.1f} s; most of it {phase} {_known(last[phase]):.1f} s "
        f"(median of all workers {middle:.1f} s)"
    )
    nodes = {row["node"]: 0.0 for row in known}
    for row in known:
        nodes[row["node"]] = max(nodes[row["node"]], row["total"])
    if len(nodes) > 1:
        slow = max(nodes, key=lambda node: nodes[node])
        yield (
            f"{name}: slowest node {slow}, ready after {nodes[slow]:.1f} s; median of "
            f"{len(nodes)} nodes {statistics.median(nodes.values()):.1f} s"
        )


def _known(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis startup", description=__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run directory, or one of runs"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="every phase, tidy: .parquet or .csv"
    )
    return parser
