"""Slurm's own faults on a real slurmctld: no run is lost to them, no job is submitted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import slurm_faults
from tests.cluster import Cluster

pytestmark = pytest.mark.slurm


def test_a_requeued_job_goes_on_by_itself_and_keeps_its_points(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.requeue_in_the_sweep(slurm_cluster, tmp_path)
    assert found.outcome["status"] == "completed"
    assert (found.points, found.outcome["attempts"]) == (3, 2)
    first, second = found.attempts
    assert first["status"] in ("requeued", "lost")
    assert second["points_before"] >= 1
    assert (first["job_id"], second["restart"]) == (second["job_id"], 1)
    assert list((found.run.logs / "attempt1").glob("decode0*.log"))


def test_a_cancelled_job_is_resumed_in_a_new_job_and_not_while_it_runs(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.cancel_and_resume(slurm_cluster, tmp_path)
    assert (found.outcome["status"], found.outcome["attempts"]) == ("completed", 2)
    assert found.points == 3
    assert [record["status"] for record in found.attempts] == ["cancelled", "completed"]
    assert len(set(found.jobs)) == 2
    assert "nothing to resume yet" in found.said


@pytest.mark.long
def test_a_submission_waits_for_the_controller_and_is_made_once(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.controller_down_at_submission(slurm_cluster, tmp_path)
    assert found.outcome["status"] == "completed"
    assert "Unable to contact slurm controller" in found.said
    assert len(found.jobs) == 1


@pytest.mark.long
def test_a_controller_that_restarts_in_the_run_ends_nothing(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.controller_restarted_in_the_run(slurm_cluster, tmp_path)
    assert found.outcome["status"] == "completed", found.outcome
    assert (found.points, found.outcome["attempts"]) == (3, 1)


@pytest.mark.long
def test_steps_that_could_not_begin_for_the_controllers_sake_are_started_again(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.controller_down_at_the_start(slurm_cluster, tmp_path)
    assert found.outcome["status"] == "completed", found.outcome
    assert "asked again in" in found.said or "started again in" in found.said


@pytest.mark.long
def test_without_accounting_a_run_is_followed_to_its_end(
    slurm_cluster: Cluster, tmp_path: Path
) -> None:
    found = slurm_faults.accounting_gone(slurm_cluster, tmp_path)
    assert found.outcome["status"] == "completed"
    assert found.points == 2
