"""on_bad_node=exclude: when a run may be submitted again, how, and what is kept of it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.allocation import Node
from jobs.node_compare import Problem
from jobs.node_report import Answer
from jobs.node_table import Verdict
from jobs.records import from_json
from jobs.resubmit import NotResubmittedError, objection, resubmit
from jobs.run_spec import Plan
from jobs.slurm_ask import Answer as Said
from jobs.store import RunDir
from tests.fakes_jobs import pair_run

INHERITED = {
    "PATH": "/usr/bin",
    "HF_HOME": "/shared/hf",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_JOB_ID": "41",
    "SLURM_JOB_NODELIST": "gb[1-4]",
    "SLURM_CPU_BIND": "quiet,mask_cpu:0xF",
    "SLURM_TRES_PER_TASK": "cpu=4",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_GET_USER_ENV": "1",
    "SBATCH_EXPORT": "NONE",
    "SRUN_DEBUG": "3",
    "PMIX_RANK": "0",
}


def plan_on(executor: str = "slurm", exclude: str | None = None, **more: Any) -> Plan:
    preflight = {"on_bad_node": "exclude", "exclude": exclude}
    plan: Plan = from_json(
        Plan, pair_run(executor=executor, nodes=4, preflight=preflight, **more)["plan"]
    )
    return plan


def verdict_over(bad: Sequence[str], *, blamed: bool = True, total: int = 4) -> Verdict:
    answers = [
        Answer(
            node=Node(index=i, name=f"gb{i}", address=f"10.0.0.{i}"),
            label=f"gb{i}",
            asked_at=0.0,
            back_at=1.0,
        )
        for i in range(1, total + 1)
    ]
    problem = Problem(
        check="ports",
        state="failed",
        nodes=tuple(bad),
        value="8100 in use",
        wanted="free",
        blamed=blamed,
    )
    return Verdict(answers=answers, problems=[problem], took_s=1.0, budget_s=20.0)


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run")
    (made.path / "submitit").mkdir(parents=True)
    (made.path / "batch.sh").write_text("#!/bin/sh\n#SBATCH --job-name=run-1a2b3c\n")
    (made.path / "run.json").write_text(json.dumps({"config": {"cluster": {"controller_s": 60}}}))
    log = made.path / "submitit" / "41_0_log.out"
    record = {"executor": "slurm", "job_id": "41", "log": str(log)}
    made.submission.write_text(json.dumps(record))
    made.preflight_record.write_text("{}")
    return made


def answering(*answers: Said, listed: str = "") -> Any:
    """A stand-in for asking Slurm, and the sbatch lines it was given; squeue lists `listed`."""
    asked: list[list[str]] = []
    left = list(answers)

    def ask(command: Sequence[str]) -> Said:
        if command[0] == "squeue":
            return Said(0, listed)
        asked.append(list(command))
        return left.pop(0) if len(left) > 1 else left[0]

    return ask, asked


TAKEN = Said(0, "42\n")
SLOW = Said(
    1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
)


def again(run_dir: RunDir, verdict: Verdict, plan: Plan, asker: Any) -> str:
    return asyncio.run(resubmit(verdict, plan, run_dir, INHERITED, asker, lambda _: None))


def test_the_new_job_takes_the_old_ones_place_in_the_record(run_dir: RunDir) -> None:
    asker, asked = answering(Said(0, "42;cluster\n"))
    plan = plan_on(exclude="gb[7-9]")
    assert again(run_dir, verdict_over(["gb2"]), plan, asker) == "42"
    record = json.loads(run_dir.submission.read_text())
    assert record["job_id"] == "42"
    assert record["log"].endswith("/submitit/42_0_log.out")
    moved = record["resubmission"]
    assert (moved["from_job"], moved["to_job"]) == ("41", "42")
    assert moved["excluded"] == {"gb2": "ports: 8100 in use"}
    assert "--exclude=gb[7-9],gb2" in asked[0]
    assert "--dependency=afterany:41" in asked[0]
    assert (run_dir.path / "preflight-41.json").exists()


def test_nothing_of_this_job_reaches_the_next_ones_environment(run_dir: RunDir) -> None:
    asker, asked = answering(TAKEN)
    again(run_dir, verdict_over(["gb2"]), plan_on(), asker)
    (command,) = asked
    unset = {word for before, word in itertools.pairwise(command) if before == "-u"}
    assert set(INHERITED) - unset == {"PATH", "HF_HOME", "SLURM_CONF"}
    line = command[command.index("sbatch") :]
    assert "--job-name=run-1a2b3c-after41" in line
    assert line[-1] == str(run_dir.path / "batch.sh")


def test_a_slow_controller_is_asked_again(run_dir: RunDir) -> None:
    asker, asked = answering(SLOW, SLOW, TAKEN)
    assert again(run_dir, verdict_over(["gb2"]), plan_on(), asker) == "42"
    assert len(asked) == 3


def test_a_job_whose_answer_was_lost_is_found_and_not_submitted_twice(run_dir: RunDir) -> None:
    asker, asked = answering(SLOW, listed="43\n")
    assert again(run_dir, verdict_over(["gb2"]), plan_on(), asker) == "43"
    assert len(asked) == 1
    assert json.loads(run_dir.submission.read_text())["resubmission"]["to_job"] == "43"


def test_a_second_time_is_refused_even_when_the_first_never_got_an_answer(
    run_dir: RunDir,
) -> None:
    asker, asked = answering(Said(1, "", "sbatch: error: Invalid account"))
    with pytest.raises(NotResubmittedError, match="Invalid account"):
        again(run_dir, verdict_over(["gb2"]), plan_on(), asker)
    assert json.loads(run_dir.submission.read_text())["job_id"] == "41"
    with pytest.raises(NotResubmittedError, match="once already, without gb2"):
        again(run_dir, verdict_over(["gb3"]), plan_on(), asker)
    assert len(asked) == 1


OBJECTIONS = {
    "all of them": (verdict_over(["gb1", "gb2", "gb3", "gb4"]), "slurm", "all 4 nodes are unfit"),
    "a draw": (verdict_over(["gb1", "gb2"], blamed=False), "slurm", "the nodes disagree (ports)"),
    "this machine": (verdict_over(["gb1"]), "local", "this machine is all there is"),
}


@pytest.mark.parametrize(("verdict", "executor", "words"), OBJECTIONS.values(), ids=OBJECTIONS)
def test_some_runs_are_not_submitted_again(
    run_dir: RunDir, verdict: Verdict, executor: str, words: str
) -> None:
    asker, asked = answering(TAKEN)
    with pytest.raises(NotResubmittedError) as error:
        again(run_dir, verdict, plan_on(executor), asker)
    assert words in str(error.value)
    assert asked == []
    assert "resubmission" not in json.loads(run_dir.submission.read_text())


def test_a_run_started_by_hand_has_no_script_to_submit() -> None:
    said = objection(verdict_over(["gb1"]), plan_on(), {"job_id": "41"}, Path("/no/batch.sh"))
    assert said == "there is no batch script batch.sh of this job to submit again"


@pytest.mark.parametrize("said", ["node", "topology"])
def test_a_partition_too_small_without_the_node_is_said(run_dir: RunDir, said: str) -> None:
    text = f"sbatch: error: Batch job submission failed: Requested {said} configuration is not "
    asker, _ = answering(Said(1, "", f"{text}available\n"))
    with pytest.raises(NotResubmittedError) as error:
        again(run_dir, verdict_over(["gb2"]), plan_on(segment=4), asker)
    assert "cannot hold 4 nodes in segments of 4 without them" in str(error.value)


@pytest.mark.parametrize("out", ["42\n", "42;cluster\n", "Welcome to 42 nodes\n42\n"])
def test_the_jobs_id_is_found_beside_a_sites_greeting(run_dir: RunDir, out: str) -> None:
    asker, _ = answering(Said(0, out))
    assert again(run_dir, verdict_over(["gb2"]), plan_on(), asker) == "42"
