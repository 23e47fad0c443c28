"""Words that Slurm, containers and env would read otherwise than they were meant."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest

from launcher.limits import owned_options
from launcher.plain_text import printable
from launcher.schema import LaunchConfig
from launcher.slurm_words import (
    drops_environment,
    node_lists,
    nothing_words,
    sbatch_names,
    shares_nodes,
    srun_options,
)
from launcher.validate import find
from launcher.written_paths import cache_folder, env_names, log_paths, mounted_paths
from tests.compose import config_of

RULES = (srun_options, sbatch_names, node_lists, nothing_words, cache_folder, log_paths)


@functools.cache
def composed() -> LaunchConfig:
    """The main configuration, composed once."""
    return config_of()


def with_values(**values: Any) -> LaunchConfig:
    """The main configuration with values of its cluster."""
    config = copy.deepcopy(composed())
    for key, value in values.items():
        setattr(config.cluster, key, value)
    return config


def problems(config: LaunchConfig) -> str:
    """What the rules of this file refuse."""
    rules = (*RULES, mounted_paths, env_names)
    return "\n".join(text for rule in rules for text in rule(config))


def test_the_rules_are_among_those_of_every_submission() -> None:
    config = with_values(srun=["hostname"], sbatch={"o": 1, "exclusive": None, "export": "NONE"})
    config.cluster.exclude, config.cluster.qos, config.cluster.cache_dir = "n[", "None", "x"
    config.cluster.results_dir, config.cluster.container.kind = "/50%,", "pyxis"
    config.cluster.container.image, config.cluster.env = "/x.sqsh", {"A-B": "1"}
    found = find(config)
    keys = ("srun[0]", "sbatch.o", "exclude", "qos", "cache_dir", "results_dir", "env.A-B")
    for key in keys:
        assert any(text.startswith(f"cluster.{key}") for text in found.problems), key
    assert any("separators of mounts" in text for text in found.problems)
    for key in ("sbatch.exclusive", "sbatch.export"):
        assert any(text.startswith(f"cluster.{key}") for text in found.warnings), key


@pytest.mark.parametrize(
    "options",
    [
        *(["--export=NCCL_DEBUG=INFO"], ["--export=NONE"], ["--export=NIL"]),
        *(["--cpus-per-task=1"], ["-c1"], ["-c", "1"], ["-w", "node7"], ["--nodel=node7"]),
        *(["--ntasks=4"], ["--output=/runs/%j/x.log"], ["--label"], ["hostname"]),
        *(["-v", "hostname"], ["--", "hostname"], ["--mpi=pmix", "hostname"]),
    ],
)
def test_srun_options_that_would_undo_the_plan_are_refused(options: list[str]) -> None:
    assert "cluster.srun[" in problems(with_values(srun=options))


@pytest.mark.parametrize(
    "options",
    [
        *(["--export=ALL,NCCL_DEBUG=INFO"], ["--export=ALL"], ["--network", "sn_all"]),
        *(["--mpi=pmix", "-vv", "--cpu-bind=cores"], ["--mem-bind=local"]),
    ],
)
def test_other_srun_options_pass(options: list[str]) -> None:
    assert not problems(with_values(srun=options))


@pytest.mark.parametrize("name", ["o", "N", "Comment", "--comment", "c x", "parsable", "test-only"])
def test_sbatch_options_need_long_names_that_leave_the_submission_alone(name: str) -> None:
    assert f"cluster.sbatch.{name}: " in problems(with_values(sbatch={name: "1"}))


def test_sbatch_may_be_told_which_nodes_to_take() -> None:
    config = with_values(sbatch={"nodelist": "node[3-5]"})
    assert not problems(config)
    assert not list(owned_options(config))


@pytest.mark.parametrize(
    "options", [{"exclusive": None}, {"exclusive": "user"}, {"oversubscribe": True}]
)
def test_a_job_that_may_share_its_nodes_is_warned_of(options: dict[str, Any]) -> None:
    assert list(shares_nodes(with_values(sbatch=options)))
    assert not list(shares_nodes(with_values(sbatch={"exclusive": True})))


def test_an_export_that_drops_the_shells_variables_is_warned_of() -> None:
    assert list(drops_environment(with_values(sbatch={"export": "NONE"})))
    assert not list(drops_environment(with_values(sbatch={"export": "ALL,A=1"})))


@pytest.mark.parametrize(
    "nodes",
    [
        *("node[1-3],gb[01", "gb200-]", "n[]", "n[3-1]", "n[1-2,,3]", "n1 n2", "None assigned"),
        *("(null)", "None", "n1,,n2", "n1;id", "n[1:3]"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(nodes: str) -> None:
    assert "cluster.exclude=" in problems(with_values(exclude=nodes))


@pytest.mark.parametrize(
    "nodes", ["gb200-[01-03,07],login1", "n1", "n[1-2]-x[3,5]", "n[08-12]-ib", "/site/bad_nodes"]
)
def test_lists_of_nodes_as_slurm_writes_them_pass(nodes: str) -> None:
    assert not problems(with_values(exclude=nodes))


@pytest.mark.parametrize("key", ["account", "partition", "qos", "reservation", "dependency"])
def test_pythons_word_for_nothing_is_no_name(key: str) -> None:
    assert "write null" in problems(with_values(**{key: "None"}))
    assert not problems(with_values(**{key: "none"}))


@pytest.mark.parametrize("path", ["cache", "", "~/cache", "./x"])
def test_the_cache_folder_is_a_place_on_the_nodes(path: str) -> None:
    assert "an absolute path" in problems(with_values(cache_dir=path))


@pytest.mark.parametrize("path", ["/runs/50%j", "/runs/a\\b"])
def test_a_folder_that_slurm_would_rename_in_its_log_path_is_refused(path: str) -> None:
    assert "cluster.results_dir" in problems(with_values(results_dir=path))
    assert not problems(with_values(results_dir=path, executor="local"))


@pytest.mark.parametrize("path", ["/runs/a,b", "/runs/a:b"])
def test_a_folder_that_splits_a_mount_is_refused_where_there_are_mounts(path: str) -> None:
    config = with_values(results_dir=path)
    assert not problems(config)
    config.cluster.container.kind = "apptainer"
    assert "cluster.results_dir" in problems(config)
    config.cluster.results_dir, config.model.path = "/runs", path
    assert "model.path" in problems(config)


@pytest.mark.parametrize("name", ["A-B", "1A", "", "-i", "A B", "A=B"])
def test_names_that_env_would_take_for_something_else_are_refused(name: str) -> None:
    assert f"cluster.env.{name}: " in problems(with_values(env={name: "1"}))


def test_an_error_cannot_move_the_cursor_or_turn_the_text() -> None:
    text = 'name="\x1b[31mred\u202e\x07"\nsecond line'
    assert printable(text) == 'name="\\x1b[31mred\\u202e\\x07"\nsecond line'
