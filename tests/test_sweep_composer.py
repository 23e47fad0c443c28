"""The short way of composing a sweep's combinations gives what the whole composition gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hydra.errors import HydraException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf.errors import OmegaConfBaseException

from launcher.composing import typed
from launcher.errors import LauncherError
from launcher.schema import LaunchConfig, register
from launcher.sweep.composer import Composer

QUICK = ("engine=rehearsal", "cluster=local", "topology=dep2_prefill1x2", "accuracy=none")
REFUSED = (
    *(HydraException, OmegaConfBaseException, LauncherError),
    *(ValueError, TypeError, AttributeError, AssertionError),
)
COMPOSER = Composer()
"""One for all examples: what an earlier one left behind must change nothing."""

AXES: tuple[tuple[str, ...], ...] = (
    ("workload.isl=64", "workload.isl='64'", "workload.isl=064", "workload.isl=6.5"),
    ("workload.range_ratio=1", "workload.range_ratio=0.5", "workload.range_ratio=1e-1"),
    ("workload.concurrency=[1]", "workload.concurrency=[4,8]", "workload.concurrency=[x]"),
    ("name=a", "name=null", "name='a b'", "name=7", "name=${workload.isl}", r"name='\${x}'"),
    ("+model.env.X=1", "+model.env.X='a,b'", "++model.env.X=true", "+model.env={X:z,Y:1}"),
    ("+flags.all.max-num-seqs=8", "+flags.all={a:{b:[1,{c:2}]}}", "flags.all=null"),
    ("+flags.all.compilation-config.mode=3", "+flags.all.compilation-config={mode:2}"),
    ("topology.roles.decode.dp=1", "topology.roles.decode={tp:2}", "~topology.roles.prefill"),
    ("+topology.roles.decode.flags.x=1", "topology.roles.decode.flags={y:[a,b]}"),
    ("cluster.sbatch={comment:'x=y&z'}", "+cluster.sbatch.hold=true", "+cluster.sbatch.q='\"'"),
    ("model.path=/a", "model.path=???", "model.tokenizer=null", "~model.path"),
    ("model.facts.layers=3", "model.facts=null", "++model.facts.unknown=3"),
    ("cluster.budgets.stall={kv_s:3}", "cluster.budgets={}", "cluster.budgets.stall.kv_s=07"),
    ("sweep.zip=[[a,b]]", "sweep.max_jobs=2", "sweep.max_jobs=none", "wait=false"),
    ("+nothing.like.it=1", "nothing=1", "~nothing", "allow_dirty=yes"),
    (
        "cluster.env.A=1",
        "++cluster.env.A=",
        "+cluster.env.A=null",
        "~cluster.env.GLOO_SOCKET_IFNAME",
    ),
)


def outcome(compose: Callable[[tuple[str, ...]], LaunchConfig], words: tuple[str, ...]) -> str:
    """The configuration with every type, or the kind of error."""
    try:
        return repr(compose(words))
    except REFUSED as error:
        return type(error).__name__


def whole(composer: Composer, words: tuple[str, ...]) -> LaunchConfig:
    """All values set on the whole composition, all of it converted."""
    return typed(composer.combination(words).config)


rows = st.lists(st.sampled_from([(n, v) for n, axis in enumerate(AXES) for v in axis]), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(rows, min_size=2, max_size=3))
def test_any_combination_after_any_other_is_what_the_whole_composition_is(
    lines: list[list[tuple[int, str]]],
) -> None:
    register()
    for row in [[], *lines]:
        words = (*QUICK, *dict(row).values())
        ours = outcome(lambda line: COMPOSER.made(line).config, words)
        assert ours == outcome(lambda line: whole(COMPOSER, line), words)


def test_a_sweep_over_numbers_composes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    register()
    composer = Composer()
    lines = [(*QUICK, f"+model.env.X={n}", f"workload.isl={n + 9}") for n in range(3)]
    made = [composer.made(lines[0])]
    monkeypatch.setattr("launcher.sweep.composer._with_values", None)
    made += [composer.made(line) for line in lines[1:]]
    assert [m.config.model.env["X"] for m in made] == ["0", "1", "2"]
    assert [m.config.workload.isl for m in made] == [9, 10, 11]
    assert [m.overrides for m in made] == lines
