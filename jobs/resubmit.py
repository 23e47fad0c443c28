"""on_bad_node=exclude: the same run submitted once more, without the nodes that are not fit.

The run directory stays: nothing but the preflight ran in it. Its submission.json names the new job
from then on, and keeps the old one with the nodes left out and why. That record is written before
sbatch is asked, so that no crash can make a second attempt out of the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.allocation import utc_now
from jobs.environment import SLURM_FAMILIES
from jobs.errors import RunRefusedError
from jobs.node_table import Verdict, some
from jobs.record_files import read_object
from jobs.records import RecordError
from jobs.run_spec import Plan
from jobs.slurm_ask import Answer, Asker, ask_slurm
from jobs.store import RunDir, write_json
from jobs.submission import SBATCH_S, Submission, grace_s, job_name_in

KEPT = frozenset({"SLURM_CONF"})
RECORD_WITHIN_S = 10.0
"""How long the launcher may take to write submission.json after sbatch answered it."""
CANNOT_HOLD = (
    "Requested node configuration is not available",
    "Requested topology configuration is not available",
    "More processors requested than permitted",
)


class NotResubmittedError(Exception):
    """Why the run was not submitted again, for its outcome."""


def _ask(command: Sequence[str]) -> Answer:
    return ask_slurm(command, SBATCH_S)


async def resubmit(
    verdict: Verdict,
    plan: Plan,
    run_dir: RunDir,
    environ: Mapping[str, str],
    asker: Asker = _ask,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """The new job's id; NotResubmittedError where there is none, with the reason.

    A controller that is down or slow is asked again for cluster.controller_s, as at the launch.
    """
    job_id = environ.get("SLURM_JOB_ID", "")
    record = await _submission(run_dir)
    script = run_dir.path / "batch.sh"
    reason = objection(verdict, plan, record, script)
    if reason:
        raise NotResubmittedError(reason)
    bad = verdict.bad_nodes
    exclude = ",".join([*filter(None, [plan.preflight.exclude]), *bad])
    told: dict[str, Any] = {"asked_at": utc_now(), "from_job": job_id, "to_job": None}
    told |= {"excluded": bad, "exclude": exclude}
    write_json(run_dir.submission, {**record, "resubmission": told})
    run_dir.preflight_record.replace(run_dir.path / f"preflight-{job_id}.json")
    try:
        again = submission_again(script, exclude, job_id, environ, grace_s(run_dir))
        again.asker, again.sleep = asker, sleep
        new = await asyncio.to_thread(again.submit)
    except RunRefusedError as error:
        raise NotResubmittedError(_refused(str(error), bad, plan)) from error
    old_log = Path(str(record.get("log", "")))
    log = str(old_log.with_name(old_log.name.replace(job_id, new, 1)))
    told["to_job"] = new
    write_json(run_dir.submission, {**record, "job_id": new, "log": log, "resubmission": told})
    return new


def objection(
    verdict: Verdict, plan: Plan, record: Mapping[str, object], script: Path
) -> str | None:
    """Why a run must not or cannot be submitted again; None when it can."""
    bad, total = verdict.bad_nodes, len(verdict.answers)
    before = record.get("resubmission")
    if plan.executor != "slurm":
        return "this machine is all there is (cluster.executor=local)"
    if isinstance(before, dict):
        left_out = ", ".join(before.get("excluded") or ())
        return f"it was submitted again once already, without {left_out}"
    if len(bad) == total:
        return f"all {total} nodes are unfit: the plan or the site is wrong, not a node"
    if verdict.guesses:
        checks = ", ".join(verdict.guesses)
        return f"the nodes disagree ({checks}) and none is plainly the odd one"
    if not record or not script.is_file():
        return f"there is no batch script {script.name} of this job to submit again"
    return None


def submission_again(
    script: Path, exclude: str, job_id: str, environ: Mapping[str, str], limit_s: float
) -> Submission:
    """The same script, with none of this job's Slurm variables, after its end.

    `afterany`: the new driver must find the run directory free, and the good nodes are this job's
    until then. The name is new, so that squeue can say whether a job of it was taken.
    """
    dropped = sorted(n for n in environ if n.startswith(SLURM_FAMILIES) and n not in KEPT)
    unset = [word for name in dropped for word in ("-u", name)]
    return Submission(
        script,
        f"{job_name_in(script)}-after{job_id}",
        limit_s,
        options=(f"--exclude={exclude}", f"--dependency=afterany:{job_id}"),
        before=("env", *unset),
    )


def _refused(said: str, bad: Mapping[str, str], plan: Plan) -> str:
    text = f"without {some(list(bad))}: {said}"
    if any(words in said for words in CANNOT_HOLD):
        held = f"{plan.nodes} nodes" + (f" in segments of {plan.segment}" if plan.segment else "")
        text += f"; the partition cannot hold {held} without them"
    return text


async def _submission(run_dir: RunDir) -> dict[str, Any]:
    """submission.json, which the launcher writes a moment after the job is taken; {} without."""
    until = time.monotonic() + RECORD_WITHIN_S
    while True:
        try:
            return read_object(run_dir.submission)
        except RecordError:
            if time.monotonic() > until:
                return {}
        await asyncio.sleep(0.2)
