"""All prompts that one deployment is sent: no cache of it can have seen a block of one before."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jobs.prompts.drawing import HEAD_TOKENS
from jobs.prompts.pieces import id_pieces
from jobs.prompts.sources import make_requests
from jobs.prompts.spec import Spec
from launcher.plan import LaunchPlan
from launcher.prompts import prompts_order
from tests.sweep_lines import groups_of

RUN = ("topology=dep2_prefill1x2", "workload=smoke", "engine=rehearsal", "cluster=local")
LONG = (*RUN, "workload.isl=200", "workload.concurrency=[2,5]")
PIECES = id_pieces(50_000)


def heads_of(plan: LaunchPlan) -> list[list[bytes]]:
    """The first tokens of every prompt of every point, warm-up included, as pieces' numbers."""
    found = []
    for file in prompts_order(plan)["files"]:
        made = make_requests(Spec.of(file["spec"]), PIECES)
        assert int(made.prompt_tokens.min()) >= HEAD_TOKENS
        rows = made.pieces[made.starts[:-1, None] + np.arange(HEAD_TOKENS)]
        found.append([row.astype("<u4").tobytes() for row in rows])
    return found


@pytest.mark.parametrize(
    ("words", "points"),
    [
        ((), 2),
        (("workload.repeats=3",), 6),
        (("workload.seed=1,0", "workload.repeats=2"), 8),
        (("workload.seed=3,1,2,0",), 8),
        (("workload.seed=2,1,0", "workload.isl=200,210"), 12),
        (("workload.range_ratio=0.9,1.0", "workload.seed=1,0"), 8),
    ],
)
def test_no_two_prompts_that_one_deployment_is_sent_begin_alike(
    words: tuple[str, ...], points: int
) -> None:
    base = [word for word in LONG if word.split("=")[0] not in {w.split("=")[0] for w in words}]
    (group,) = groups_of(*base, *words)
    assert len(group.plan.points) == points
    heads = list(itertools.chain.from_iterable(heads_of(group.plan)))
    assert len(heads) - len(set(heads)) == 0
    assert len({point.name for point in group.plan.points}) == points


def test_prefixes_are_shared_within_a_point_and_with_no_other() -> None:
    words = ("workload.source=shared_prefix", "workload.shared_prefix.tokens=100")
    (group,) = groups_of(*LONG, *words, "workload.shared_prefix.groups=3", "workload.repeats=2")
    found = [set(heads) for heads in heads_of(group.plan)]
    assert all(len(heads) <= 3 for heads in found)
    assert len(set.union(*found)) == sum(map(len, found))


def test_jobs_of_a_sweep_have_deployments_of_their_own_and_the_same_prompts() -> None:
    first, second = groups_of(*LONG, "router.policy=random,round_robin")
    assert heads_of(first.plan) == heads_of(second.plan)
