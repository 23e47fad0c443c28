"""What Slurm's own answers say of a job's steps at the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from jobs.errors import JobError
from jobs.slurm_steps import SlurmSteps


def inhabited(answer: str | None, *steps: str) -> list[str] | None:
    """What is made of sstat's `answer`; None: it fails."""

    async def asker(command: Sequence[str]) -> str:
        assert command[-1] == f"--jobs={','.join(steps)}"
        if answer is None:
            raise JobError("sstat ended with 1: slurm_job_step_get_pids: connection refused")
        return answer

    return asyncio.run(SlurmSteps("7", asker=asker).inhabited(steps))


def test_a_step_without_a_process_on_any_node_is_over_whatever_the_controller_lists() -> None:
    """As Slurm 24.11 answered: step 7.1 had ended while the controller was away."""
    told = "7.0|node19|6338,6340\n7.1|node20|\n"
    assert inhabited(told, "7.0", "7.1") == ["7.0"]
    assert inhabited("7.1|node20|\n7.1|node21|77\n", "7.1") == ["7.1"]


@pytest.mark.parametrize("answer", ["", "sstat: no such step\n", "7.0|node19|\n"])
def test_a_step_of_which_nothing_was_said_is_not_taken_for_ended(answer: str) -> None:
    assert inhabited(answer, "7.1") == ["7.1"]


def test_without_an_answer_nobody_knows() -> None:
    assert inhabited(None, "7.0") is None
