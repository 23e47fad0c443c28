"""What the launcher writes down for the preflight, and words that choose what follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.render import plan_document
from launcher.site import model_files
from launcher.validate import check_config
from tests.compose import AROUND, config_of, plan_of

PYXIS = ("cluster.container.kind=pyxis", "cluster.container.image=/images/vllm.sqsh")


def preflight_of(*words: str) -> dict[str, Any]:
    wanted: dict[str, Any] = plan_document(*plan_of(*words), AROUND)["preflight"]
    return wanted


def test_an_environment_is_asked_by_its_own_python() -> None:
    wanted = preflight_of("engine.env_dir=/envs/vllm")
    assert wanted["engine_python"] == "/envs/vllm/bin/python"
    assert "/envs/vllm/bin/vllm" in wanted["executables"]
    assert wanted["inside"] == []


def test_a_container_is_asked_inside_on_every_node_that_serves() -> None:
    wanted = preflight_of(*PYXIS, "engine.env_dir=/envs/vllm")
    assert wanted["engine_python"] is None
    assert [step["node"] for step in wanted["inside"]] == [0, 1, 2, 3]
    for step in wanted["inside"]:
        assert "--container-image=/images/vllm.sqsh" in step["command"]
        assert step["command"][-3:] == ["python3", "-m", "jobs.preflight"]
        assert f"PYTHONPATH={AROUND.code_dir}" in step["command"]


def test_the_rehearsal_engine_needs_neither_model_nor_packages() -> None:
    wanted = preflight_of(*PYXIS, "engine=rehearsal")
    assert wanted["model"] is wanted["engine_python"] is wanted["cache_dir"] is None
    assert wanted["inside"] == []


def test_network_devices_that_the_environment_names_are_looked_for() -> None:
    words = ("+cluster.env.GLOO_SOCKET_IFNAME=bond0", "+cluster.env.UCX_NET_DEVICES='mlx5_0:1,all'")
    assert preflight_of("engine.env_dir=/e", *words)["devices"] == ["bond0", "mlx5_0"]
    assert preflight_of("engine.env_dir=/e")["devices"] == []


def test_sizes_of_the_models_files_are_kept_where_they_are_seen(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".lock").write_text("")
    (tmp_path / "sub").mkdir()
    config = config_of(f"model.path={tmp_path}")
    assert model_files(config) == {"config.json": 2}
    config.cluster.login_sees_models = False
    assert model_files(config) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster=local", "on_bad_node=exclude"), "on_bad_node=exclude: has no effect"),
        (
            ("cluster.segment='off'", "cluster.segment_fallback=divisor"),
            "cluster.segment_fallback=divisor: has no effect",
        ),
    ],
)
def test_a_second_choice_without_effect_is_warned_of(words: tuple[str, ...], said: str) -> None:
    warnings = check_config(config_of("engine=rehearsal", "workload=smoke", *words))
    assert any(said in warning for warning in warnings)
