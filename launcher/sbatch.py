"""The edge to submitit: a batch script handed over, a refusal explained, a lost answer looked
into."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import submitit

from launcher.errors import SubmissionError

KEPT_SLURM = ("SLURM_CONF",)
DROPPED_PREFIXES = (
    *("SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SALLOC_"),
    *("PMIX_", "PMI_", "PMI2_"),
)
CLEANING = threading.Lock()
"""A sweep's jobs are handed over by several threads."""
DEAF = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
ELSEWHERE = "(cluster.executor=slurm). Run this where sbatch is, or use cluster=local"
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


class Handover(submitit.SlurmExecutor):
    """submitit's submission of a command that is a whole batch script.

    Rendering it again (the same function, three times a job) would be most of what a sweep of a
    hundred jobs costs beside sbatch.
    """

    def _make_submission_file_text(self, command: str, uid: str) -> str:  # noqa: ARG002
        return command

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        """Deaf to Ctrl-C, which must not end sbatch, or a site's wrapper around it, between Slurm's
        yes and the id."""
        return [*DEAF, *super()._make_submission_command(submission_file_path)]


def sbatch(script: Path, env: Mapping[str, str]) -> str:
    """The id of the script's job; SubmissionError when Slurm refused it, or is away.

    `script` lies in a run directory. `env` are variables that our own programs need, should
    sbatch's answer be lost.
    """
    if shutil.which("sbatch") is None:
        raise SubmissionError(f"sbatch is not in PATH {ELSEWHERE}")
    with CLEANING:
        for variable in clean_slurm_environment(dict(os.environ)):
            del os.environ[variable]
    folder = script.parent / "submitit"
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        with _no_ctrl_c():
            executor = Handover(folder=folder)
            return str(executor._submit_command(script.read_text(encoding="utf-8")).job_id)
    except submitit.core.utils.FailedJobError as error:
        return _in_doubt(script.parent, str(error), env)
    except submitit.core.utils.FailedSubmissionError:
        return _in_doubt(script.parent, NO_ID, env)
    except RuntimeError as error:
        raise SubmissionError(f"{error} {ELSEWHERE}") from error


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """What a sweep's thread starts is not reached by one before it is deaf to it.

    One that comes meanwhile waits at the new process, until that ignores it. The main thread, which
    submits single runs, hears it itself.
    """
    if threading.current_thread() is threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
