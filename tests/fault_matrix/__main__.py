"""`python -m tests.fault_matrix [ROW...]`: strikes, measures, writes docs/fault-matrix.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from subprocess import SubprocessError

from tests.cluster import ClusterError
from tests.fault_matrix import disk_rows, engine_rows, local_rows, measured, slurm_rows
from tests.fault_matrix.row import Row

log = logging.getLogger("matrix")

GROUPS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("This machine, rehearsal workers", local_rows.ROWS),
    ("The results' disk, rehearsal workers", disk_rows.ROWS),
    ("A real Slurm, rehearsal workers on 4 nodes", slurm_rows.ROWS),
    ("The real vLLM on a CPU", engine_rows.ROWS),
)


def main() -> int:
    """0 when every row kept every promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault_matrix", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names of rows, or words of their group's title")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    given = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    broken = (
        0
        if given.page
        else sum(
            not run(row, title)
            for title, rows in GROUPS
            for row in rows
            if not given.rows or any(word == row.name or word in title for word in given.rows)
        )
    )
    measured.PAGE.write_text(measured.page(GROUPS))
    return 1 if broken else 0


def run(row: Row, title: str) -> bool:
    """Runs a row and keeps what was measured if it kept its promises."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        try:
            seen = row.strike(Path(folder))
        except (AssertionError, ClusterError, OSError, StopIteration, SubprocessError) as error:
            log.error("%s: could not be run: %s", row.name, str(error)[:2000])
            return False
    problems = row.problems(seen)
    if problems:
        log.error("%s: %s", row.name, "; ".join(problems))
        return False
    log.info("%s: good in %.0f s: %s", row.name, time.monotonic() - begun, seen)
    measured.note(row, seen, title, time.strftime("%Y-%m-%d"), versions())
    return True


def versions() -> str:
    """What the figures were measured with."""
    router = importlib.metadata.version("vllm-router")
    return (
        f"Python {platform.python_version()}, vllm-router {router}, {os.cpu_count()} cores, "
        f"Linux {platform.release().split('-')[0]}"
    )


if __name__ == "__main__":
    sys.exit(main())
