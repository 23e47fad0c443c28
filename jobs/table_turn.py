"""Whether a sweep's table job comes too early: a run may have gone on in a job made since.

`python -m jobs.table_turn SWEEP`, the first line of the table job. A run that was resumed, or was
submitted again without an unfit node, names its new job in submission.json. If such a job is still
in the queue, the table job is submitted again behind it (exit code 75) and writes nothing now.
Without an answer from Slurm the tables are written at once (exit code 0).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobs.environment import SLURM_FAMILIES
from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.slurm_ask import ask_slurm
from jobs.store import write_json

LATER = 75
LIVING = "PENDING,RUNNING,SUSPENDED"
"""Not COMPLETING: what has ended is not waited for."""
SCRIPT = "table.sh"
KEPT = "SLURM_CONF"
SBATCH_S = 120.0


def main(home: Path) -> int:
    """0 to go on, LATER when the job was put behind those that are still to come."""
    asked = ["squeue", "--noheader", f"--user={os.getuid()}", f"--states={LIVING}"]
    answer = ask_slurm([*asked, "--format=%i"])
    if not answer.good:
        sys.stdout.write(f"squeue gives no answer ({answer.said}): the tables as they stand\n")
        return 0
    living = sorted(jobs_of(home) & set(answer.out.split()) - {os.environ.get("SLURM_JOB_ID", "")})
    if not living:
        return 0
    told = f"jobs {', '.join(living)} of this sweep are still to come"
    new = _again(home, living)
    if new is None:
        sys.stdout.write(f"{told}, but sbatch refused: the tables as they stand\n")
        return 0
    sys.stdout.write(f"{told}: job {new} writes the tables after them\n")
    return LATER


def jobs_of(home: Path) -> set[str]:
    """The Slurm job that each run of the sweep names now."""
    found = set()
    for path in home.glob("*/submission.json"):
        try:
            record = read_object(path)
        except RecordError:
            continue
        if record.get("executor") == "slurm":
            found.add(str(record.get("job_id")))
    return found


def _again(home: Path, living: list[str]) -> str | None:
    unset = [n for n in os.environ if n.startswith(SLURM_FAMILIES) and n != KEPT]
    words = ["sbatch", "--parsable", f"--dependency=afterany:{':'.join(living)}"]
    try:
        done = subprocess.run(
            [*words, str(home / SCRIPT)],
            env={name: value for name, value in os.environ.items() if name not in unset},
            capture_output=True,
            text=True,
            timeout=SBATCH_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    new = done.stdout.strip().split(";")[0]
    if done.returncode or not new.isdecimal():
        return None
    try:
        record = read_object(home / "sweep.json")
        before = record.get("table") or {}
        write_json(home / "sweep.json", {**record, "table": {**before, "job_id": new}})
    except (RecordError, OSError) as error:
        sys.stdout.write(f"sweep.json still names the earlier table job: {error}\n")
    return new


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
