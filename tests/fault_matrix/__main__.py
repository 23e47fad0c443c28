"""`python -m tests.fault_matrix [ROW...]`: strikes, measures, writes docs/fault-matrix.md.

Every row that was struck is on the page, also one that did not keep its promises: the exit code is
1 then, and the row can be struck again by its name.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import platform
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.cluster import Cluster, ClusterError
from tests.fault_matrix import measured, slurm_ready, striking
from tests.fault_matrix.places import PLACES, Place
from tests.fault_matrix.row import Row

log = logging.getLogger("matrix")

Work = list[tuple[Place, Row]]


@dataclass
class Tally:
    """How far the command is; lanes share it."""

    total: int
    remark: str
    bad: list[str] = field(default_factory=list)
    done: int = 0

    def tell(self, name: str, words: str, *, good: bool) -> None:
        """One line for a row that was struck, or could not be."""
        self.done += 1
        if not good:
            self.bad.append(name)
        log.info("[%d/%d] %s: %s", self.done, self.total, name, words)


def main() -> int:
    """0 when every row kept every promise, 2 when asked for a row that is none, 130 by Ctrl-C."""
    given = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    work: Work = [
        (place, row)
        for place in PLACES
        for row in place.rows
        if not given.rows or any(word == row.name or word in place.title for word in given.rows)
    ]
    tally = Tally(total=len(work), remark=given.remark)
    try:
        if not given.page:
            _strike_all(work, tally)
    except KeyboardInterrupt:
        log.error("ended after %d of %d rows; the others are as they were", tally.done, tally.total)
        return 130
    finally:
        measured.write_page(PLACES)
    if tally.bad:
        again = " ".join(tally.bad)
        log.error("%d of %d rows failed; again: %s %s", len(tally.bad), tally.total, RUN, again)
    return 1 if tally.bad else 0


RUN = "python -m tests.fault_matrix"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=RUN, description=__doc__)
    parser.add_argument("rows", nargs="*", help="names of rows, or words of their table's title")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    parser.add_argument("--remark", default="", help="what is to be known of these measurements")
    given = parser.parse_args()
    known = {row.name for place in PLACES for row in place.rows}
    for word in given.rows:
        if word not in known and not any(word in place.title for place in PLACES):
            parser.error(f"no row and no table {word!r}; rows: {', '.join(sorted(known))}")
    return given


def _strike_all(work: Work, tally: Tally) -> None:
    """The lanes side by side; the cluster goes down again where it was not up."""
    on_slurm = any(place.lane == "slurm" for place, _ in work)
    was_up = on_slurm and Cluster().is_up()
    lanes = {place.lane for place, _ in work}
    try:
        with ThreadPoolExecutor(max(1, len(lanes))) as pool:
            running = [
                pool.submit(_lane, [it for it in work if it[0].lane == lane], tally)
                for lane in lanes
            ]
            try:
                for lane_work in running:
                    lane_work.result()
            except BaseException:
                striking.ENOUGH.set()
                raise
    finally:
        if on_slurm and not was_up:
            slurm_ready.take_down()


def _lane(work: Work, tally: Tally) -> None:
    """Row after row; where a place cannot be had, its rows are told and the others go on."""
    lacking: dict[str, str] = {}
    for place, row in work:
        if striking.ENOUGH.is_set():
            return
        lacks = lacking.get(place.title) or place.lacks() or _not_ready(place)
        if lacks:
            lacking[place.title] = lacks
            tally.tell(row.name, f"NOT STRUCK: it needs {lacks}", good=False)
            continue
        _one(place, row, tally)


def _not_ready(place: Place) -> str:
    try:
        place.ready()
    except (ClusterError, OSError) as error:
        return f"its place ready: {error}"
    return ""


def _one(place: Place, row: Row, tally: Tally) -> None:
    struck = striking.strike(row, place.limit_s, place.nice)
    if striking.ENOUGH.is_set():
        return
    date = time.strftime("%Y-%m-%d")
    measured.note(row, struck, measured.Made(place.title, date, versions(), tally.remark))
    measured.write_page(PLACES)
    if struck.problems:
        words = f"FAILED after {struck.took_s:.0f} s: {'; '.join(struck.problems)[:1500]}"
    else:
        words = f"good in {struck.took_s:.0f} s: {_figures(struck)}"
    tally.tell(row.name, words, good=not struck.problems)


def _figures(struck: striking.Struck) -> str:
    assert struck.seen is not None
    seen, figures = struck.seen, []
    for word, value in (("noticed in", seen.notice_s), ("clean in", seen.clean_s)):
        figures += [f"{word} {value:.1f} s"] if value is not None else []
    return ", ".join([seen.status, *figures, f"load {struck.load}"])


def versions() -> str:
    """What the figures were measured with."""
    router = importlib.metadata.version("vllm-router")
    return (
        f"Python {platform.python_version()}, vllm-router {router}, {os.cpu_count()} cores, "
        f"Linux {platform.release().split('-')[0]}"
    )


if __name__ == "__main__":
    sys.exit(main())
