"""Which points of a sweep were measured already: asked of `python -m jobs.reuse`."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from launcher.composing import CONF_DIR
from launcher.document import dumped
from launcher.errors import SubmissionError


@dataclass(frozen=True, slots=True)
class Reusable:
    """One job's content hashes, and what of it is there already."""

    content: Mapping[str, Any]
    """deployment, points (index -> hash), accuracy: content.json of the run directory."""
    points: Mapping[int, Mapping[str, Any]]
    """Index -> the record of the run that measured it."""
    accuracy: Mapping[str, Any] | None


class Reuse:
    """`python -m jobs.reuse`, begun early so that it is ready by the time it is asked."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[str] | None = None

    def begin(self) -> subprocess.Popen[str]:
        """Starts the program, unless it was started before."""
        if self._program is None:
            code_dir = str(CONF_DIR.parent)
            self._program = subprocess.Popen(
                [sys.executable, "-P", "-m", "jobs.reuse"],
                env={**os.environ, "PYTHONPATH": code_dir},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """One that was not asked is ended."""
        if self._program is not None and self._program.poll() is None:
            self._program.kill()
            self._program.communicate()

    def look(
        self, documents: Iterable[Mapping[str, Any]], results_dir: str, home: Path, search: bool
    ) -> list[Reusable]:
        """For each run.json-to-be; what is reused is copied into `home`/reused with its origin.

        A document a line: the program looks at one while the next is being made.
        """
        asked = {"results": results_dir, "home": str(home), "search": search}
        program = self.begin()
        said = ""
        try:
            for one in itertools.chain([asked], documents):
                program.stdin.write(f"{dumped(one)}\n")  # type: ignore[union-attr]
        except BrokenPipeError:  # it has ended, and said why
            program.wait()
        else:
            said, _ = program.communicate()
        if program.returncode:
            raise SubmissionError("looking for points measured already failed (see above)")
        return [
            Reusable(
                content=entry["content"],
                points={int(index): origin for index, origin in entry["points"].items()},
                accuracy=entry["accuracy"],
            )
            for entry in json.loads(said)
        ]
