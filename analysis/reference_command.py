"""`python -m analysis reference`: the published figures as a table, with their frontier."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from analysis.compute import fact
from analysis.metrics import BY_NAME, Metric
from analysis.reference import Reference, load_reference, reference_frame
from analysis.tables import csv_table, markdown_list, markdown_table, text_table

FORMATS = ("text", "csv", "markdown")
TOLD = ("source", "read", "error", "approximate", "divisor", "generation", "missing")


def main(argv: Sequence[str]) -> int:
    """Print it; 0."""
    options = _parser().parse_args(argv)
    reference = load_reference()
    frame = reference_frame(reference)
    if options.format == "csv":
        sys.stdout.write(csv_table(frame, _columns()))
        return 0
    notes = "".join(f"{line}\n" for line in notes_on(reference))
    shapes = frame.drop_duplicates("topology")
    table = markdown_table if options.format == "markdown" else text_table
    below = markdown_list(notes) if options.format == "markdown" else notes
    parts = (table(shapes, _divisors()), table(frame, _columns()), below)
    sys.stdout.write(f"{reference.header['title']}\n\n" + "\n".join(parts))
    return 0


def notes_on(reference: Reference) -> list[str]:
    """What a reader of the figures has to know, a line each."""
    lines = [f"{name}: {reference.header[name]}" for name in TOLD]
    return [
        *lines,
        "frontier: yes = no other point is as good in both figures, whatever the reading error;"
        " within error = as read, but the error could hide a better one",
        f"lengths: {reference.isl}/{reference.osl}, {reference.range_definition} range ratio"
        f" {reference.range_ratio:g}",
        f"the article's mark: {reference.mark_tps_per_gpu:,.0f} total tok/s per serving GPU at"
        f" GSM8K {reference.mark_gsm8k:.2f}",
    ]


def _divisors() -> list[Metric]:
    return [_known("topology"), *_counts(), _own("idle_gpus", "idle GPUs", kind="whole")]


def _columns() -> list[Metric]:
    names = (
        "topology", "concurrency", "serving_gpus", "allocated_gpus", "total_tps_per_gpu",
        "total_tps_per_allocated_gpu", "generation_tps_per_user",
    )  # fmt: skip
    return [*map(_known, names), _own("frontier", "frontier"), _own("read", "read")]


def _counts() -> list[Metric]:
    return [_known("serving_gpus"), _known("allocated_gpus")]


def _known(name: str) -> Metric:
    return BY_NAME[name]


def _own(name: str, label: str, **more: Any) -> Metric:
    kind = more.pop("kind", "text")
    return Metric(
        name=name, label=label, doc=label, source="reference", kind=kind, compute=fact(name)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis reference", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, default="text")
    return parser
