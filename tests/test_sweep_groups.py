"""Which combinations share a job, and what its points and its deployment are then."""

from __future__ import annotations

import pytest

from launcher.engines.vllm import capture_size
from tests.sweep_lines import groups_of

SMOKE = ("topology=dep2_prefill1x2", "workload=smoke")

LOAD_AXES = (
    "workload.concurrency=1,2",
    "workload.isl=64,128",
    "workload.osl=8,16",
    "workload.range_ratio=0.5,1.0",
    "workload.seed=0,7",
    "workload.prompts_per_concurrency=2,4",
    "accuracy=none,word_problems",
)
DEPLOYMENT_AXES = (
    "topology=dp1_prefill1x1,dep2_prefill1x2",
    "topology.roles.prefill.endpoints=1,2",
    "flags=article,article_stats",
    "+flags.all.max-num-seqs=8,16",
    "+model.env.A_VARIABLE=a,b",
    "cluster.segment=auto,off",
    "router.policy=random,round_robin",
    "name=a,b",
)


@pytest.mark.parametrize("axis", LOAD_AXES)
def test_an_axis_of_the_load_makes_points_of_one_job(axis: str) -> None:
    (group,) = groups_of(*SMOKE, axis)
    assert len(group.members) == 2
    assert len({point.name for point in group.plan.points}) == len(group.plan.points)


@pytest.mark.parametrize("axis", DEPLOYMENT_AXES)
def test_an_axis_of_the_deployment_makes_jobs(axis: str) -> None:
    words = SMOKE[1:] if axis.startswith("topology=") else SMOKE
    assert [len(group.members) for group in groups_of(*words, axis)] == [1, 1]


def test_points_of_several_workloads_keep_their_own_lengths_names_and_prompts() -> None:
    (group,) = groups_of(*SMOKE, "workload.isl=64,128", "workload.concurrency=[1,2]")
    points = group.plan.points
    assert [point.name for point in points] == ["64x32-c1", "64x32-c2", "128x32-c1", "128x32-c2"]
    assert [point.isl for point in points] == [64, 64, 128, 128]
    assert [point.index for point in points] == [0, 1, 2, 3]
    assert len({point.seed for point in points}) == 4
    assert points[2].input_range == (102, 128)
    assert group.points_of == {0: (0, 1), 1: (2, 3)}


def test_loads_that_differ_in_more_than_lengths_have_numbered_names() -> None:
    (group,) = groups_of(*SMOKE, "workload.range_ratio=0.5,1.0", "workload.concurrency=[4]")
    assert [point.name for point in group.plan.points] == ["c4-1", "c4-2"]


def test_repeats_of_several_loads_are_rounds_over_all_of_them() -> None:
    """Else a slow change of the servers would lie between the loads and not between repeats."""
    line = ("workload.osl=8,16", "workload.concurrency=[1]", "workload.repeats=2")
    (group,) = groups_of(*SMOKE, *line)
    assert [(point.osl, point.repeat) for point in group.plan.points] == [
        (8, 0), (16, 0), (8, 1), (16, 1),
    ]  # fmt: skip
    assert group.points_of == {0: (0, 2), 1: (1, 3)}


def test_equal_points_of_two_combinations_are_measured_once() -> None:
    (group,) = groups_of(*SMOKE, "workload.concurrency=[1,2],[2,4]")
    assert [point.concurrency for point in group.plan.points] == [1, 2, 4]
    assert group.points_of == {0: (0, 1), 1: (1, 2)}


def test_a_deployment_is_asked_its_questions_once() -> None:
    words = ("accuracy=none,word_problems", "accuracy.num_questions=3,5")
    groups = groups_of(*SMOKE, *words)
    asked = [(group.plan.config.accuracy.dataset, len(group.members)) for group in groups]
    assert asked == [("word_problems", 3), ("word_problems", 1)]
    assert {group.plan.config.accuracy.num_questions for group in groups} == {3, 5}


def test_flags_that_follow_from_the_load_follow_from_the_whole_groups() -> None:
    """8 decode ranks: 16384 / 8 + 128; each combination alone would have had another deployment."""
    (group,) = groups_of(
        *("engine.kind=vllm", "flags.capture_rule=true", "topology=dep8_prefill4x2"),
        *("cluster.login_sees_models=false", "workload.concurrency=8192,16384"),
    )
    assert capture_size(group.plan) == 16384 // 8 + 128


def test_cheap_shapes_go_first_and_the_order_can_be_kept() -> None:
    axis = "topology=dep8_prefill8x2,dep8_prefill4x2,dep8_prefill6x2"
    cheap = groups_of(axis, order="cheapest")
    assert [group.placement.nodes for group in cheap] == [4, 5, 6]
    given = groups_of(axis)
    assert [group.placement.nodes for group in given] == [6, 4, 5]
