"""Which points of a sweep were measured already: asked of `python -m jobs.reuse`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.errors import SubmissionError


@dataclass(frozen=True, slots=True)
class Reusable:
    """One job's content hashes, and what of it is there already."""

    content: Mapping[str, Any]
    """deployment, points (index -> hash), accuracy: content.json of the run directory."""
    points: Mapping[int, Mapping[str, Any]]
    """Index -> the record of the run that measured it."""
    accuracy: Mapping[str, Any] | None


def look(
    documents: Sequence[Mapping[str, Any]], results_dir: str, home: Path, search: bool
) -> list[Reusable]:
    """For each run.json-to-be; what is reused is copied into `home`/reused with its origin."""
    asked = {"documents": documents, "results": results_dir, "home": str(home), "search": search}
    code_dir = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jobs.reuse"],
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": code_dir},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SubmissionError("looking for points that were measured already failed (see above)")
    return [
        Reusable(
            content=entry["content"],
            points={int(index): origin for index, origin in entry["points"].items()},
            accuracy=entry["accuracy"],
        )
        for entry in json.loads(done.stdout)
    ]
