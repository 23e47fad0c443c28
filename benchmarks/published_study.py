"""The published study in one line: 5 topologies x 9 concurrencies + accuracy, rehearsed on Slurm.

    python -m tests.cluster up                 # then, with its environment:
    python benchmarks/published_study.py

Rehearsal workers (no model is loaded, no number is a result); placement, jobs, points, accuracy and
the combined table are the real ones. With GSM8K_DIR in the environment (a folder with test.jsonl
and train.jsonl) the accuracy is 16 of GSM8K's questions, else word problems. Prints what was
submitted, the table and the wall time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE = (
    "topology=dep8_prefill4x2,dep8_prefill5x2,dep8_prefill6x2,dep8_prefill7x2,dep8_prefill8x2",
    "workload.concurrency=1,2,3,4,6,8,12,16,24",
    *("engine=rehearsal", "cluster=slurm_ci", "workload=smoke", "workload.osl=8"),
    "workload.prompts_per_concurrency=1",
    *("canary.prompts=1", "canary.tokens=4", "allow_dirty=true"),
)
QUESTIONS = ("accuracy=word_problems", "accuracy.num_questions=8")
GSM8K = ("accuracy=gsm8k", "accuracy.num_questions=16", "accuracy.repeats=1")


def main() -> int:
    """Runs the line to its end and prints."""
    with tempfile.TemporaryDirectory(prefix="study-") as folder:
        begun = time.monotonic()
        asked = GSM8K if os.environ.get("GSM8K_DIR") else QUESTIONS
        sys.stdout.write(f"accuracy: {' '.join(asked)}\n")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "launcher",
                "-m",
                *LINE,
                *asked,
                f"cluster.results_dir={folder}/runs",
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        submitted = time.monotonic() - begun
        sys.stdout.write(done.stdout)
        home = Path(next(w.split()[-1] for w in done.stdout.splitlines() if "sweep dir" in w))
        record = json.loads((home / "sweep.json").read_text(encoding="utf-8"))
        wait(record["table"]["job_id"])
        wall = time.monotonic() - begun
        runs = [home / run["directory"] for run in record["runs"]]
        sys.stdout.write((home / "table.txt").read_text(encoding="utf-8"))
        loads = sum(len(list((run / "attempts").glob("?.json"))) for run in runs)
        points = sum(len(list((run / "points").glob("*.json"))) for run in runs)
    sys.stdout.write(
        f"\n{len(record['combinations'])} combinations: {len(runs)} jobs, {loads} loads, "
        f"{points} points; submitted after {submitted:.1f} s, tables after {wall:.1f} s\n"
    )
    return 0 if (len(runs), points, loads) == (5, 45, 5) else 1


def wait(job: str) -> None:
    """Until Slurm lists the job no more."""
    while (
        job
        in subprocess.run(
            ["squeue", "-h", "-o%i"], capture_output=True, text=True, check=True
        ).stdout.split()
    ):
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
