"""The published figures that runs are laid beside: 39 points of five shapes, with their error.

The points and where they are from stand in one data file, whose header this module reads too.
"""

from __future__ import annotations

import csv
import functools
import itertools
from dataclasses import dataclass
from importlib import resources

import pandas as pd

from analysis.frontier import on_frontier, sure_of_frontier

FILE = "qwen3_5_gb200_8k1k.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePoint:
    """One mark of the article's figure. `total_tps_per_gpu` divides by serving GPUs, as printed
    there; `approximate`: another mark covers it, so the stated error may be too small."""

    topology: str
    prefill_endpoints: int
    serving_gpus: int
    allocated_gpus: int
    concurrency: int
    total_tps_per_gpu: float
    generation_tps_per_user: float
    approximate: bool

    @property
    def total_tps_per_allocated_gpu(self) -> float:
        """The same throughput over every GPU of the allocation (4 per node), idle ones too."""
        return self.total_tps_per_gpu * self.serving_gpus / self.allocated_gpus

    @property
    def idle_gpus(self) -> int:
        """GPUs that are allocated and hold no rank."""
        return self.allocated_gpus - self.serving_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The published curve. Errors are half widths, in tok/s/GPU and tok/s/user; `header` is what
    the data file says of itself; the mark is the article's headline."""

    header: dict[str, str]
    points: tuple[ReferencePoint, ...]
    error_tps_per_gpu: float
    error_tps_per_user: float
    mark_tps_per_gpu: float
    mark_gsm8k: float
    served_model: str
    isl: int
    osl: int
    range_definition: str
    range_ratio: float

    def frontier(self) -> tuple[list[bool], list[bool]]:
        """Per point: on the frontier as read; on it whatever the reading error is."""
        places = [(p.generation_tps_per_user, p.total_tps_per_gpu) for p in self.points]
        error = (self.error_tps_per_user, self.error_tps_per_gpu)
        return on_frontier(places), sure_of_frontier(places, error)

    def shapes(self) -> tuple[ReferencePoint, ...]:
        """One point of each topology, in the order of the figure: its divisors."""
        return tuple({point.topology: point for point in reversed(self.points)}.values())[::-1]


@functools.cache
def load_reference() -> Reference:
    """The reference that comes with this package."""
    text = resources.files("analysis").joinpath("data", FILE).read_text(encoding="utf-8")
    return parse_reference(text)


def parse_reference(text: str) -> Reference:
    """A reference from its file: `# key: value` lines, then CSV under a header line.

    The file is part of the package, so a fault in it is ours: KeyError or ValueError.
    """
    lines = text.splitlines()
    notes = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    header = dict(note.removeprefix("# ").split(": ", 1) for note in notes)
    points = tuple(_point(row) for row in csv.DictReader(lines[len(notes) :]))
    return Reference(
        header=header,
        points=points,
        error_tps_per_gpu=float(header["error_tps_per_gpu"]),
        error_tps_per_user=float(header["error_tps_per_user"]),
        mark_tps_per_gpu=float(header["mark_tps_per_gpu"]),
        mark_gsm8k=float(header["mark_gsm8k"]),
        served_model=header["served_model"],
        isl=int(header["isl"]),
        osl=int(header["osl"]),
        range_definition=header["range_definition"],
        range_ratio=float(header["range_ratio"]),
    )


def reference_frame(reference: Reference) -> pd.DataFrame:
    """The points under the names that runs' columns have, and three of their own: `idle_gpus`,
    `read` ("" or "approximate") and `frontier` ("yes", "within error", "")."""
    drawn, sure = reference.frontier()
    words = {(True, True): "yes", (True, False): "within error"}
    rows = [
        {
            "topology": point.topology,
            "concurrency": point.concurrency,
            "serving_gpus": point.serving_gpus,
            "allocated_gpus": point.allocated_gpus,
            "idle_gpus": point.idle_gpus,
            "total_tps_per_gpu": point.total_tps_per_gpu,
            "total_tps_per_allocated_gpu": point.total_tps_per_allocated_gpu,
            "generation_tps_per_user": point.generation_tps_per_user,
            "frontier": words.get((on, certain), ""),
            "read": "approximate" if point.approximate else "",
        }
        for point, on, certain in zip(reference.points, drawn, sure, strict=True)
    ]
    return pd.DataFrame(rows)


def _point(row: dict[str, str]) -> ReferencePoint:
    return ReferencePoint(
        topology=row["topology"],
        prefill_endpoints=int(row["prefill_endpoints"]),
        serving_gpus=int(row["serving_gpus"]),
        allocated_gpus=int(row["allocated_gpus"]),
        concurrency=int(row["concurrency"]),
        total_tps_per_gpu=float(row["total_tps_per_gpu"]),
        generation_tps_per_user=float(row["generation_tps_per_user"]),
        approximate=row["approximate"] == "1",
    )
