"""GPUs, nodes, ranks and ports of every shape."""

from __future__ import annotations

from collections import Counter

import pytest

from launcher.engines import ENGINES
from launcher.errors import LauncherError, PlanError
from launcher.placement import place
from launcher.plan import build_plan
from launcher.ports import clash_text, clashes, listeners
from launcher.schema import LaunchConfig, RoleConfig
from launcher.segment import segment_of
from launcher.validate import check_config
from tests.compose import config_of, document_of, plan_of
from tests.test_conf import TOPOLOGIES


def shaped(**roles: RoleConfig) -> LaunchConfig:
    """The default configuration with other roles."""
    config = config_of()
    config.topology.roles = roles
    return config


@pytest.mark.parametrize(
    ("roles", "nodes"),
    [
        ({"prefill": RoleConfig(endpoints=2, tp=4), "decode": RoleConfig(dp=16)}, 6),
        ({"prefill": RoleConfig(tp=4), "decode": RoleConfig(tp=8)}, 3),
        ({"prefill": RoleConfig(endpoints=4, dp=2), "decode": RoleConfig(dp=8)}, 4),
        ({"prefill": RoleConfig(endpoints=3, dp=3), "decode": RoleConfig(dp=2)}, 4),
        ({"aggregated": RoleConfig(dp=8)}, 2),
    ],
)
def test_node_counts_are_what_the_ranks_need(roles: dict[str, RoleConfig], nodes: int) -> None:
    assert place(build_plan(shaped(**roles))).nodes == nodes


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_gpu_holds_at_most_one_rank_and_every_rank_is_placed_once(name: str) -> None:
    plan, placement = plan_of(f"topology={name}")
    gpus = Counter((p.node, gpu) for p in placement.processes for gpu in p.gpus)
    assert set(gpus.values()) == {1}
    assert len(gpus) == plan.serving_gpus
    for endpoint in plan.endpoints:
        ranks = [r for p in placement.processes if p.endpoint is endpoint for r in p.dp_ranks]
        assert ranks == list(range(endpoint.dp))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_no_two_listeners_of_a_node_share_a_port(name: str) -> None:
    plan, placement = plan_of(f"topology={name}")
    nixl = ENGINES["vllm"].transfers_kv(plan)
    assert clashes(listeners(placement, plan.config.cluster.ports, nixl)) == []


def test_a_moved_base_that_collides_is_named_with_both_owners() -> None:
    plan, placement = plan_of("cluster.ports.nixl=8100")
    found = [
        clash_text(clash)
        for clash in clashes(listeners(placement, plan.config.cluster.ports, True))
    ]
    assert found[0] == "node 0, port 8100: prefill0 (http) and prefill0 (nixl side channel rank 0)"


def test_the_second_node_of_a_wide_endpoint_answers_http_under_hybrid_load_balancing() -> None:
    wide = [w for w in document_of()["workers"] if w["role"] == "decode"]
    assert [w["url"] for w in wide] == ["http://node2:8100", "http://node3:8100"]
    assert [w["served_ranks"] for w in wide] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all("--data-parallel-hybrid-lb" in w["argv"] for w in wide)
    assert wide[1]["ports"]["nixl"] == [5612, 5613, 5614, 5615]
    assert wide[1]["env"]["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "node3"
    assert {w["env"]["VLLM_NIXL_SIDE_CHANNEL_PORT"] for w in wide} == {"5608"}


def test_the_second_node_is_headless_under_internal_load_balancing() -> None:
    document = document_of("topology.roles.decode.load_balancing=internal")
    first, second = (w for w in document["workers"] if w["role"] == "decode")
    assert first["url"] == "http://node2:8100"
    assert first["served_ranks"] == list(range(8))
    assert second["url"] is None
    assert "--headless" in second["argv"]
    assert "--port" not in second["argv"]
    assert document["router"]["argv"].count("--decode") == 1


def test_hybrid_load_balancing_with_one_rank_on_a_node_is_refused() -> None:
    config = shaped(prefill=RoleConfig(tp=4), decode=RoleConfig(tp=4, dp=2))
    with pytest.raises(PlanError, match=r"load_balancing=hybrid: decode0-n1 holds one rank"):
        check_config(config)
    config.topology.roles["decode"].load_balancing = "internal"
    check_config(config)


def test_a_rank_over_two_nodes_is_tied_by_node_rank() -> None:
    config = shaped(prefill=RoleConfig(tp=4), decode=RoleConfig(tp=8))
    placement = place(build_plan(config))
    decode = [p for p in placement.processes if p.endpoint.role == "decode"]
    argv = ENGINES["vllm"].worker_argv(decode[1], build_plan(config), None)  # type: ignore[arg-type]
    assert [p.gpus for p in decode] == [(0, 1, 2, 3)] * 2
    assert "--node-rank 1" in " ".join(argv)
    assert "--headless" in argv


def test_a_rank_that_cannot_be_cut_at_node_ends_is_refused_with_the_numbers() -> None:
    with pytest.raises(LauncherError, match=r"tp 3 x pp 1 = 3 GPUs a rank, dp 8, on nodes of 4"):
        place(build_plan(shaped(prefill=RoleConfig(), decode=RoleConfig(tp=3, dp=8))))


@pytest.mark.parametrize(
    ("setting", "domain", "expected"),
    [("auto", 18, 6), ("auto", 5, 3), ("off", 18, None), ("3", 18, 3), ("2", 18, 2)],
)
def test_the_segment_divides_the_node_count_and_fits_a_domain(
    setting: str, domain: int, expected: int | None
) -> None:
    config = shaped(aggregated=RoleConfig(endpoints=6, dp=4))
    config.cluster.segment = setting
    config.cluster.nvlink_domain_nodes = domain
    plan = build_plan(config)
    assert segment_of(plan, place(plan)) == expected


@pytest.mark.parametrize(
    ("setting", "words"),
    [("4", "does not divide the 6 nodes"), ("19", "18 nodes"), ("x", "allowed: auto, off")],
)
def test_a_segment_that_cannot_be_met_is_refused(setting: str, words: str) -> None:
    config = shaped(aggregated=RoleConfig(endpoints=6, dp=4))
    config.cluster.segment = setting
    plan = build_plan(config)
    with pytest.raises(LauncherError, match=words):
        segment_of(plan, place(plan))
