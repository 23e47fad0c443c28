"""The text format of /metrics, read into samples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?\s*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One number under one name and set of labels."""

    name: str
    labels: dict[str, str]
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """All samples of a page; comments and lines that are no samples are left out."""
    return list(_samples(text.splitlines()))


def _samples(lines: Iterable[str]) -> Iterable[Sample]:
    for line in lines:
        if line.startswith("#") or not (found := SAMPLE.fullmatch(line)):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = {
            name: re.sub(r'\\[\\"n]', lambda match: ESCAPES[match[0]], text)
            for name, text in LABEL.findall(found[2] or "")
        }
        yield Sample(found[1], labels, value)
