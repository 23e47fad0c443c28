"""A job of several combinations is checked as the whole that it is."""

from __future__ import annotations

import sys

from launcher.diagnosis import judged
from launcher.schema import register
from launcher.sweep.composer import Composer
from launcher.sweep.group_checks import whole
from launcher.sweep.groups import Member, grouped
from launcher.validate import Findings

BIG = (
    *("topology=dep8_prefill4x2", "cluster.login_sees_models=false", "engine.env_dir=/x"),
    *("accuracy=none", "dry_run=true"),
)


def whole_of(*words: str) -> tuple[dict[int, tuple[str, ...]], Findings]:
    """What the combinations of a one-job sweep are told alone, and what the job is told."""
    register()
    composer, members, told = Composer(), [], {}
    for number, line in enumerate(composer.axes([*BIG, *words]).combinations()):
        made = composer.made(line)
        found = judged(made.config, sys.executable)
        assert found.problems == ()
        told[number] = found.warnings
        members.append(
            Member(number=number, config=made.config, labels=made.labels, overrides=line)
        )
    (group,) = grouped(members, "as_given")
    return told, whole(group, told)


def test_a_limit_that_each_point_keeps_and_all_together_do_not_is_told_once() -> None:
    words = ("workload.concurrency=1024,2048,4096", "cluster.time='00:45:00'")
    told, found = whole_of(*words)
    assert not any("cluster.time" in text for texts in told.values() for text in texts)
    (text,) = found.warnings
    assert text.startswith("cluster.time=00:45:00: looks too short")
    assert "3 points" in text


def test_with_check_strict_it_is_an_error() -> None:
    words = ("workload.concurrency=1024,2048,4096", "cluster.time='00:45:00'", "check=strict")
    quiet = ("flags.all.stream-interval=1", "+cluster.env.GLOO_SOCKET_IFNAME=x")
    _, found = whole_of(*words, *quiet)
    (text,) = found.problems
    assert "check=strict stops at it" in text


def test_what_was_said_of_a_combination_is_not_said_again_of_the_job() -> None:
    told, found = whole_of("workload.concurrency=64,128")
    assert all(told.values())
    assert found == Findings((), ())


def test_lengths_and_concurrencies_that_never_meet_are_not_joined() -> None:
    words = (
        "sweep.zip=[[workload.isl,workload.concurrency]]",
        *("workload.isl=128,8192", "workload.concurrency=[5120],[64]"),
        "cluster.time='00:45:00'",
    )
    _, found = whole_of(*words)
    assert found == Findings((), ())
