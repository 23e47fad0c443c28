"""sbatch: a batch script handed over, a refusal explained, a lost answer looked into.

submitit writes the script's text (launcher/batch.py) and sbatch is started here: submitit's own
way renders the text three more times a job and keeps a second copy of it, which was most of what
a sweep of a hundred jobs cost beside sbatch itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from launcher.errors import SubmissionError

KEPT_SLURM = ("SLURM_CONF",)
DROPPED_PREFIXES = (
    *("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SALLOC_"),
    *("PMIX_", "PMI_", "PMI2_"),
)
CLEANING = threading.Lock()
"""A sweep's jobs are handed over by several threads."""
JOB_ID = re.compile(r"job (?P<id>[0-9]+)")
"""`Submitted batch job 12`, with `on cluster x` behind it where there are several."""
NO_ID = "sbatch ended well but named no job"
"""jobs/submission.py's words for a job to be looked for: a site's wrapper may swallow the id."""

NO_TOPOLOGY = "Requested topology configuration is not available"
NO_NODES = "Requested node configuration is not available"

EXPLANATIONS = {
    NO_NODES: "no nodes of this partition can ever hold the job: ask for fewer nodes or GPUs, "
    "exclude fewer, or set another cluster.partition",
    "Invalid --segment specification": "this Slurm or its topology plugin knows no segments: "
    "cluster.segment=off",
    "unrecognized option '--segment": "this Slurm is older than 23.11 and knows no segments: "
    "cluster.segment=off",
    "Invalid account": "set cluster.account to one of yours (sacctmgr show assoc user=$USER)",
    "invalid partition": "set cluster.partition to one that sinfo lists",
    "Invalid qos": "set cluster.qos to one that your account may use",
}


def clean_slurm_environment(environ: dict[str, str]) -> list[str]:
    """Names to drop before sbatch, so that a surrounding allocation does not leak into the job."""
    return [
        name for name in environ if name.startswith(DROPPED_PREFIXES) and name not in KEPT_SLURM
    ]


def sbatch(script: Path, env: Mapping[str, str]) -> str:
    """The id of the script's job; SubmissionError when Slurm refused it, or is away.

    `env` are variables that our own programs need, should sbatch's answer be lost. sbatch has a
    process group of its own: a Ctrl-C must not end it between Slurm's yes and the id.
    """
    with CLEANING:
        for variable in clean_slurm_environment(dict(os.environ)):
            del os.environ[variable]
    try:
        done = subprocess.run(
            ["sbatch", str(script)],
            capture_output=True,
            text=True,
            check=False,
            process_group=0,
        )
    except OSError as error:
        raise SubmissionError(
            f"sbatch cannot be started: {error.strerror} (cluster.executor=slurm). Run this where "
            "sbatch is, or use cluster=local"
        ) from error
    if done.returncode:
        sys.stderr.write(done.stderr)
        return _in_doubt(script.parent, done.stderr, env)
    if found := JOB_ID.search(done.stdout):
        return found["id"]
    return _in_doubt(script.parent, NO_ID, env)


def _in_doubt(run_dir: Path, said: str, env: Mapping[str, str]) -> str:
    """The job's id after an sbatch that failed; SubmissionError when Slurm refused, or is away.

    `python -m jobs submit` looks for the job before it tries again, so none is submitted twice.
    """
    if not said.strip():
        said = "sbatch failed without a word"
    done = subprocess.run(
        [sys.executable, "-m", "jobs", "submit", str(run_dir), f"--said={said}"],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 0 and done.stdout.strip().isdecimal():
        return done.stdout.strip()
    if done.returncode == 3:
        raise SubmissionError(_explain(said))
    raise SubmissionError(
        "the job was not submitted, as far as Slurm tells (see above); its controller was out of "
        "reach: try again later"
    )


def _explain(text: str) -> str:
    reason = next((why for words, why in EXPLANATIONS.items() if words in text), None)
    tail = text.strip().splitlines()[-1] if text.strip() else "no message"
    return f"sbatch refused the job: {tail}" + (f"\n  {reason}" if reason else "")
