"""All mistakes of a command line and of the files behind it, in one list, each with its place."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from launcher.composing import CONF_DIR, is_sweep
from launcher.diagnosis import diagnose, shared_first, suspicious, told_apart
from launcher.schema import register


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A copy of conf/ to spoil."""
    register()
    shutil.copytree(CONF_DIR, tmp_path / "conf")
    return tmp_path / "conf"


def told(conf: Path, *words: str) -> str:
    """Every problem of a dry run, one a line."""
    return "\n".join(diagnose([*words, "dry_run=true"], conf, sys.executable))


def test_a_sound_command_line_has_no_problem(conf: Path) -> None:
    assert told(conf, "topology=dep8_prefill6x2", "cluster.account=hpc") == ""


def test_every_mistake_of_a_file_is_told_with_file_and_key(conf: Path) -> None:
    (conf / "cluster" / "mine.yaml").write_text(
        "executor: slurm\ngpus_per_nodee: 4\ncpus_per_node: many\nports: {http: x, nixxl: 3}\n"
        "account: ???\ntime: 1:30:00\n"
    )
    text = told(conf, "cluster=mine")
    for words in (
        "conf/cluster/mine.yaml: unknown key cluster.gpus_per_nodee",
        "conf/cluster/mine.yaml: cluster.cpus_per_node=many: allowed: a whole number, or null",
        "conf/cluster/mine.yaml: cluster.ports.http=x: allowed: a whole number",
        "conf/cluster/mine.yaml: unknown key cluster.ports.nixxl",
        "cluster.account is not set (???)",
        "cluster.time='5400'",
        "[conf/cluster/mine.yaml]",
    ):
        assert words in text, words


def test_an_open_value_over_an_optional_field_is_seen_and_an_override_settles_it(
    conf: Path,
) -> None:
    assert not suspicious(["wait=true"], conf)
    (conf / "cluster" / "mine.yaml").write_text('executor: slurm\naccount: ???\nenv: {A: "???"}\n')
    assert suspicious([], conf)
    assert "cluster.account is not set (???)" in told(conf, "cluster=mine")
    assert "cluster.account" not in told(conf, "cluster=mine", "cluster.account=hpc")
    assert "cluster.env.A is not set (???)" in told(conf, "cluster=mine")
    assert told(conf) == "", "only files that the command line chooses count"


def test_a_reference_to_an_open_value_is_told_beside_it(conf: Path) -> None:
    text = told(conf, "model.path=???", "model.tokenizer='${model.path}'")
    assert "model.path is not set (???)" in text
    assert "model.tokenizer=${model.path}: refers to a key that is not set" in text


def test_broken_yaml_is_told_with_its_line(conf: Path) -> None:
    (conf / "workload" / "mine.yaml").write_text("isl: 1\nosl: [1\n")
    assert "mine.yaml, line 3" in told(conf, "workload=mine", "cluster.time=9")


@pytest.mark.parametrize(
    ("word", "allowed"),
    [
        ("workload.isl=", "a whole number"),
        ("workload.isl=null", "a whole number"),
        ("workload.concurrency=5", "a list of whole numbers, as in [64,128]"),
        ("workload.concurrency=[64,many]", "a list of whole numbers"),
        ("workload.concurrency=null", "a list of whole numbers"),
        ("cluster.env=on", "a mapping, as in {name:value}"),
        ("model.hybrid=perhaps", "true or false"),
        ("cluster.grace_s=soon", "a whole number"),
        ("workload.range_ratio=big", "a number"),
        ("cluster.cpus_per_node=many", "a whole number, or null"),
    ],
)
def test_a_value_of_another_kind_is_told_in_the_launchers_own_words(
    conf: Path, word: str, allowed: str
) -> None:
    text = told(conf, word)
    assert f"allowed: {allowed}" in text
    for library in ("Integer", "ListConfig", "full_key", "non-optional"):
        assert library not in text


def test_what_is_told_of_a_value_is_not_told_of_its_stand_in(conf: Path) -> None:
    lines = told(conf, "model.path=???", "workload.range_ratio=2").splitlines()
    assert len(lines) == 2


def test_texts_shared_by_all_combinations_come_once() -> None:
    found = {"a=1": ["same", "first"], "a=2": ["same"]}
    assert list(shared_first(found)) == ["same", "first [a=1]"]


def test_a_combination_is_named_by_what_not_all_of_them_have() -> None:
    lines = [("x=1", "a=1", "b=1"), ("x=1", "a=2", "b=1"), ("x=1", "a=2", "b=2")]
    assert told_apart(lines) == ["a=1 b=1", "a=2 b=1", "a=2 b=2"]
    assert told_apart([("x=1", "a=1")]) == ["x=1 a=1"]


@pytest.mark.parametrize("word", ["-m", "-mm", "--multirun", "--multi"])
def test_hydras_other_spellings_of_its_option_are_a_sweep_too(word: str) -> None:
    assert is_sweep([word, "workload.seed=1,2"])
    assert not is_sweep([word, "--cfg", "job"])
