"""Reading the few numbers of a long metrics page that are sampled again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.prometheus import parse_metrics

ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Family:
    """One number: the sum of all samples of this name, and of this label where one is given."""

    name: str
    label: tuple[str, str] | None = None


Numbers = dict[str, float]
"""By the project's word; what the page does not have is not in it."""


class SeriesPage:
    """Reads pages for one set of families; cheap, for it happens every second for every process."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self.words = tuple(families)
        self._starts = tuple({family.name for family in families.values()})
        self._by_name: dict[str, list[tuple[str, tuple[str, str] | None]]] = {}
        for word, family in families.items():
            self._by_name.setdefault(family.name, []).append((word, family.label))

    def read(self, page: str) -> dict[str, Numbers]:
        """By engine label; under "" what has none."""
        lines = [line for line in page.splitlines() if line.startswith(self._starts)]
        found: dict[str, Numbers] = {}
        for sample in parse_metrics("\n".join(lines)):
            for word, label in self._by_name.get(sample.name, ()):
                if label is None or sample.labels.get(label[0]) == label[1]:
                    numbers = found.setdefault(sample.labels.get(ENGINE, ""), {})
                    numbers[word] = numbers.get(word, 0.0) + sample.value
        return found
