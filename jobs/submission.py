"""Handing a batch script to Slurm while its controller may be down or slow, and never twice.

An sbatch that failed for the controller's sake may have been accepted all the same (the answer was
lost, not the job). So before sbatch is tried again, squeue must answer, twice some seconds apart,
without a job of this submission's own name. The name is unique to the submission.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobs.environment import SLURM_FAMILIES
from jobs.errors import RunRefusedError
from jobs.job_states import parse_job_id
from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.slurm_ask import OUT_OF_REACH, Answer, Asker, ask_slurm
from jobs.store import RunDir

log = logging.getLogger("jobs")

SBATCH_S = 120.0
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 30.0
PARSABLE = re.compile(r"^(\d+)(?:;\S+)?$", re.MULTILINE)
"""sbatch --parsable: the id, and the cluster's name where there are several."""

NO_ID = "sbatch ended well but named no job"
GRACE_S = 600.0
"""How long nothing need be known of a job before it counts as lost, where run.json is silent."""
LOOKS = 2
LOOKS_APART_S = 5.0


@dataclass(slots=True)
class Submission:
    """One submission of `script` under the unique job name `name`.

    `known` are ids of earlier jobs of the same name. `limit_s` bounds how long the controller may
    be out of reach. `options` win over the script's own; `before` is put before sbatch (env ...).
    """

    script: Path
    name: str
    limit_s: float
    known: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    asker: Asker = ask_slurm
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def submit(self, said_before: str | None = None) -> str:
        """The job's id. `said_before` is what a first sbatch said that failed elsewhere.

        RunRefusedError when Slurm says no, or stays out of reach for longer than the limit.
        """
        until = self.clock() + self.limit_s
        pause = FIRST_PAUSE_S
        said = said_before
        while True:
            if said is not None:
                if not is_out_of_reach(said):
                    raise RunRefusedError(f"sbatch refused the job: {said.strip()[-500:]}")
                left = until - self.clock()
                log.warning("%s; %.0f s of %.0f s left to try", said.strip(), left, self.limit_s)
                if (found := self._look(until, pause)) is not None:
                    log.info("the job was accepted all the same: %s", found)
                    return found
            answer = self._sbatch()
            if answer.good and (ids := PARSABLE.findall(answer.out)):
                return str(ids[-1])
            # Accepted without an id (a site's wrapper swallowed it): squeue knows the job.
            said = NO_ID if answer.good else answer.said
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _sbatch(self) -> Answer:
        line = ["sbatch", "--parsable", f"--job-name={self.name}", *self.options, str(self.script)]
        return self.asker([*self.before, *line])

    def _look(self, until: float, pause: float) -> str | None:
        """The job's id if squeue knows its name; None when squeue said twice that it does not."""
        unseen = 0
        while unseen < LOOKS:
            self.sleep(LOOKS_APART_S if unseen else pause)
            answer = self.asker(
                ("squeue", "--noheader", "--states=all", "--me", f"--name={self.name}", "-o%i")
            )
            if answer.good:
                unseen += 1
                ids = [parse_job_id(word).job for word in answer.out.split()]
                new = sorted({i for i in ids if i and i not in self.known}, key=int)
                if new:
                    return new[0]
            else:
                unseen = 0
                pause = min(2 * pause, LONGEST_PAUSE_S)
            if self.clock() > until:
                raise RunRefusedError(
                    f"Slurm's controller was out of reach for {self.limit_s:.0f} s "
                    f"(cluster.controller_s); last: {answer.said}. Whether a job named "
                    f"{self.name} was accepted is not known: look with squeue --name={self.name} "
                    "before you submit again"
                )
        return None


def is_out_of_reach(said: str) -> bool:
    """Whether these are words about the controller's absence, not its answer."""
    return any(words in said for words in (*OUT_OF_REACH, "gave no answer within", NO_ID))


def sbatch_asker(timeout_s: float = SBATCH_S) -> Asker:
    """Asks without the variables of a surrounding job: they would become options."""
    for name in [name for name in os.environ if name.startswith(SLURM_FAMILIES)]:
        if name != "SLURM_CONF":
            del os.environ[name]
    return lambda command: ask_slurm(command, timeout_s)


def job_name_in(script: Path) -> str:
    """The job name that the batch script asks for."""
    found = re.search(r"^#SBATCH --job-name=(.+)$", script.read_text(encoding="utf-8"), re.M)
    if not found:
        raise RunRefusedError(f"{script} names no job (#SBATCH --job-name=...)")
    return found[1].strip().strip("'\"")


def grace_s(run_dir: RunDir) -> float:
    """cluster.controller_s as run.json has it."""
    try:
        cluster = read_object(run_dir.run_json).get("config", {}).get("cluster", {})
    except (RecordError, AttributeError):
        return GRACE_S
    value = cluster.get("controller_s") if isinstance(cluster, dict) else None
    return float(value) if isinstance(value, int | float) else GRACE_S
