"""A submission while the controller is down or slow: tried again, given up in time, never twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.errors import RunRefusedError
from jobs.slurm_ask import OUT_OF_REACH, Answer
from jobs.step_creation import never_began
from jobs.submission import Submission, is_out_of_reach
from launcher.batch import sbatch_text
from launcher.errors import PlanError
from launcher.validate import check_config
from tests.compose import AROUND, config_of, plan_of
from tests.fakes_jobs import REPO

AWAY = "Batch job submission failed: Unable to contact slurm controller (connect failure)"
SLOW = "Batch job submission failed: Socket timed out on send/recv operation"
DOWN = Answer(1, "", f"sbatch: error: {AWAY}")


class Cluster:
    """A controller as sbatch and squeue see it: what happens at each question, in order.

    down: no answer. takes: accepts and answers. loses: accepts, but the answer is lost. greets
    and swallows: accepts behind a site's wrapper that adds words, or drops the id.
    """

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.jobs: dict[str, str] = {}
        self.now = 0.0
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        self.asked.append(command[0])
        self.now += 9.0 if self.script[:1] == ["down"] else 0.1
        word = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if word == "down":
            return DOWN
        if command[0] == "squeue":
            name = next(w.removeprefix("--name=") for w in command if w.startswith("--name="))
            return Answer(0, "".join(f"{i}\n" for i, n in self.jobs.items() if n == name))
        job_id = str(100 + len(self.jobs))
        self.jobs[job_id] = next(w.partition("=")[2] for w in command if "--job-name" in w)
        said = {
            "takes": Answer(0, job_id),
            "loses": Answer(1, "", f"sbatch: error: {SLOW}"),
            "greets": Answer(0, f"Welcome to 42 nodes\n{job_id};cluster\n"),
            "swallows": Answer(0, "Submitted.\n"),
        }
        return said[word]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def submission(self, limit_s: float = 300.0) -> Submission:
        return Submission(
            Path("/RUN/batch.sh"), "run-1a2b3c", limit_s, frozenset(),
            asker=self, sleep=self.sleep, clock=lambda: self.now,
        )  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        ("takes",),
        ("down", "down", "down", "takes"),
        ("down", "up", "down", "up", "up", "takes"),
        ("greets",),
        ("swallows", "up"),
        ("loses", "up"),
        ("loses", "down", "down", "up"),
        ("down", "up", "up", "loses", "down", "up"),
    ],
)
def test_there_is_one_job_whatever_the_controller_does(script: tuple[str, ...]) -> None:
    cluster = Cluster(*script)
    job_id = cluster.submission().submit()
    assert list(cluster.jobs) == [job_id]


def test_sbatch_is_repeated_only_after_squeue_said_twice_that_the_job_is_not_there() -> None:
    cluster = Cluster("down", "up", "down", "up", "up", "takes")
    cluster.submission().submit()
    assert cluster.asked == ["sbatch", "squeue", "squeue", "squeue", "squeue", "sbatch"]


def test_it_is_given_up_within_the_limit_and_says_how_to_look() -> None:
    cluster = Cluster("down")
    with pytest.raises(RunRefusedError, match="squeue --name=run-1a2b3c"):
        cluster.submission(limit_s=120.0).submit()
    assert 120 < cluster.now < 180
    assert cluster.jobs == {}
    assert cluster.asked.count("sbatch") == 1


def test_a_job_of_an_earlier_attempt_is_not_taken_for_the_new_one() -> None:
    cluster = Cluster("down", "up", "up", "takes")
    cluster.jobs["55"] = "run-1a2b3c"
    submission = cluster.submission()
    submission.known = frozenset({"55"})
    assert submission.submit() != "55"


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Batch job submission failed: Invalid account or account/partition",
        "sbatch: error: invalid partition specified: gpu",
        "sbatch: error: Batch job submission failed: Requested topology configuration is not",
    ],
)
def test_a_refusal_is_an_answer_and_not_tried_again(said: str) -> None:
    cluster = Cluster("takes")
    with pytest.raises(RunRefusedError, match="sbatch refused"):
        cluster.submission().submit(said)
    assert cluster.asked == []


def test_words_of_an_absent_controller_are_told_from_refusals() -> None:
    assert is_out_of_reach(AWAY)
    assert is_out_of_reach(SLOW)
    assert is_out_of_reach("sbatch gave no answer within 120 s")
    assert all(is_out_of_reach(f"sbatch: error: {words}") for words in OUT_OF_REACH)


@pytest.mark.parametrize(
    ("text", "began"),
    [
        ("srun: error: Unable to create step for job 7: Unable to contact slurm\n", False),
        ("srun: error: Unable to confirm allocation for job 7: Socket timed out on send/recv "
         "operation\nsrun: Check SLURM_JOB_ID environment variable.\n", False),
        ("srun: error: Unable to create step for job 7: Invalid generic resource\n", True),
        ("INFO loading\nsrun: error: Unable to create step for job 7: Unable to contact slurm "
         "controller\n", True),
        ("srun: error: node1: task 0: Exited with exit code 1\n", True),
        ("", True),
    ],
)  # fmt: skip
def test_only_a_step_that_never_began_for_the_controllers_sake_may_be_started_again(
    tmp_path: Path, text: str, began: bool
) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier start\n" + text)
    assert never_began(log, len("of an earlier start\n")) is not began


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("+cluster.env.HF_TOKEN=hf_secret99", "cluster.env.HF_TOKEN: a secret"),
        ("+engine.env.WANDB_API_KEY=hf_secret99", "engine.env.WANDB_API_KEY: a secret"),
        ("+flags.all.hf-token=hf_secret99", "flags.all.hf-token: a token on the command line"),
    ],
)
def test_a_secret_in_the_configuration_is_refused_and_not_repeated(
    override: str, words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        check_config(config_of(override))
    assert words in str(caught.value)
    assert "hf_secret99" not in str(caught.value)


@pytest.mark.parametrize("text", ["a\u202eb", "a\u200bb", "a\x9b1m", "a\u2028b"])
def test_text_that_hides_or_moves_is_refused_in_names(text: str) -> None:
    with pytest.raises(PlanError, match="control characters"):
        check_config(config_of(f"model.served_name='{text}'"))


def test_a_hostile_name_is_quoted_in_the_batch_script_and_runs_nothing(tmp_path: Path) -> None:

    plan, placement = plan_of("cluster.grace_s=300")
    hostile = f"$(touch {tmp_path}/owned); `touch {tmp_path}/owned` 'x\" #"
    script = sbatch_text(plan, placement, hostile, f"{tmp_path}/it's $(touch owned)", AROUND)
    script = script.replace("exec env", "echo env")
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False, capture_output=True)
    assert not list(tmp_path.glob("**/owned"))
    assert len([line for line in script.splitlines() if "--job-name" in line]) == 1


def test_the_submit_command_says_when_nothing_was_in_doubt(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "jobs", "submit", str(tmp_path), "--said=Invalid account"]
    assert subprocess.run(line, cwd=REPO, check=False).returncode == 3


def test_a_controller_just_back_is_given_a_moment_to_know_its_nodes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    refused = "Memory required by task is not available"
    log.write_text(f"srun: error: Unable to create step for job 2: {refused}\n")
    assert never_began(log, 0, waited_s=5.0)
    assert not never_began(log, 0, waited_s=21.0)
