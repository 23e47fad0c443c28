"""Jobs that wait for a run's job go on waiting when the run goes on in another job.

A sweep's lanes (sweep.max_jobs) and its table job are held back by --dependency=afterany. Slurm
lets the owner of a waiting job change its dependency, so the job that hands its run on adds the new
one to whatever waits for itself. It does so while it still runs: until then nothing can begin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from jobs.slurm_ask import Asker

MARK = re.compile(r"\([a-z]+\)")
"""squeue's remark on each part of a dependency: afterany:7(unfulfilled)."""


def hand_on(old: str, new: str, asker: Asker) -> tuple[list[str], list[str]]:
    """(ids of the jobs that now wait for `new` too, what could not be changed and why)."""
    line = ["squeue", "--noheader", "--states=PENDING", "--format=%i|%E"]
    answer = asker([*line, f"--user={os.getuid()}"])
    if not answer.good:
        return [], [f"squeue: {answer.said}"]
    changed, problems = [], []
    for job_id, held in _waiting(answer.out, old):
        if job_id == new:
            continue
        if "?" in held:
            problems.append(f"job {job_id} waits for one of several jobs ({held}): left as it is")
            continue
        wanted = f"{MARK.sub('', held)},afterany:{new}"
        told = asker(["scontrol", "update", f"JobId={job_id}", f"Dependency={wanted}"])
        if told.good:
            changed.append(job_id)
        else:
            problems.append(f"job {job_id}: scontrol update: {told.said}")
    return changed, problems


def _waiting(text: str, old: str) -> Sequence[tuple[str, str]]:
    """(job, its dependency) of those held back by the job `old`."""
    pairs = [line.strip().partition("|") for line in text.splitlines()]
    mine = re.compile(rf"(?:^|[,?:])(?:after\w*:(?:\d+:)*)?{re.escape(old)}(?![\d_])")
    return [(job_id, held) for job_id, _, held in pairs if "after" in held and mine.search(held)]
