"""Bare numbers where a text is meant are told before their spelling is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from omegaconf._utils import get_yaml_loader

from launcher.spelling import changed_in_file, changed_overrides, may_change

LOST = (
    *("cluster.account=1_000", "cluster.exclude=12e4", "name=.5", "name=1.10", "+model.env.X=1e3"),
    *("+model.env.X=1_000", "+cluster.sbatch.comment=1e5", "name=1_0,2_0"),
    *("+cluster.env={A:1_000}", "+cluster.env={A: 1e3, B: x}", "+flags.env={A:x,B:.5}"),
    *("cluster.sbatch={comment:1e5}", "cluster.srun=[1_000]", "cluster.exclude=+5"),
)
KEPT = (
    *("cluster.account=123", "cluster.account='1_000'", "name=0x10", "name=1.5", "name=a_1,b_2"),
    *("workload.range_ratio=1e-1", "flags.all.max-model-len=16e3", "model.path=/a.b/1_0"),
    *("+model.env.X='1e3'", "name=007", "+model.env.X=range(0,3)", "cluster.time=1:30:00"),
    *("cluster.controller_s=1e3", "workload.concurrency=[1_0]", "name={"),
    *("+cluster.env={A:0x10,B:010,C:12:30,D:yes,E:off}", "+cluster.env={A:'1_000',B:7}"),
    *("+flags.all.x={a:1e3}", "name=0b1", "+cluster.env={A:5,B:1.5}", "cluster.srun=['1_000']"),
)


@pytest.mark.parametrize("word", LOST)
def test_an_override_whose_text_would_change_is_told_with_what_it_is_read_as(word: str) -> None:
    (problem, *_) = changed_overrides([word])
    assert problem.startswith(word.lstrip("+"))
    assert "read as the number" in problem


@pytest.mark.parametrize("word", KEPT)
def test_numbers_and_texts_that_stay_as_they_are_typed_are_not(word: str) -> None:
    assert list(changed_overrides([word])) == []


@pytest.mark.parametrize("line", ["account: 0123", "account: 1_000", "exclude: 12e4", "name: 1:30"])
def test_the_same_in_a_file(line: str) -> None:
    name, _, typed = line.partition(": ")
    value = yaml.load(line, Loader=get_yaml_loader())[name]
    key = name if name == "name" else f"cluster.{name}"
    assert may_change(f"# a comment\n{line}  # why\n")
    told = list(changed_in_file(f"{line}\n", key, value))
    assert bool(told) == (str(value) != typed)
    assert not may_change(line.replace(typed, f"'{typed}'"))


def test_environments_in_a_file_are_looked_at_variable_by_variable() -> None:
    text = "env:\n  GOOD: 7\n  BAD: 1e3\n"
    assert may_change(text)
    (told,) = changed_in_file(text, "cluster.env", {"GOOD": 7, "BAD": 1000.0})
    assert told.startswith("cluster.env.BAD=1e3: read as the number 1000.0")


def test_no_file_of_ours_has_one() -> None:
    conf = Path(__file__).resolve().parent.parent / "conf"
    assert not [path for path in conf.rglob("*.yaml") if may_change(path.read_text())]
