"""Every YAML under conf/ composes, means what it says, and stays short."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.rehearsal.options import parse_options
from launcher.composing import CONF_DIR, GROUPS
from launcher.errors import PlanError
from launcher.validate import check_config
from tests.compose import config_of, document_of

OPTIONS = [
    (group, path.stem) for group in GROUPS for path in sorted((CONF_DIR / group).glob("*.yaml"))
]
TOPOLOGIES = [option for group, option in OPTIONS if group == "topology"]
PUBLISHED = {4: (4, 16), 5: (5, 18), 6: (5, 20), 7: (6, 22), 8: (6, 24)}
SMALL = ("workload=smoke",)
NEEDS = {
    # The published model does not fit on one GPU; small models and settings take short requests.
    ("topology", "dp1_prefill1x1"): ("model=tiny_qwen3_5",),
    ("model", "smollm2_135m"): (*SMALL, "topology=dp1_prefill1x1"),
    ("flags", "cpu"): SMALL,
    ("flags", "cpu_hybrid"): SMALL,
}


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_and_passes_the_checks(group: str, option: str) -> None:
    check_config(config_of(f"{group}={option}", *NEEDS.get((group, option), ())))


@pytest.mark.parametrize("name", ["demo", "demo_hybrid"])
def test_every_experiment_composes_and_passes_the_checks(name: str) -> None:
    check_config(config_of(f"experiment={name}"))


@pytest.mark.parametrize("prefill", PUBLISHED)
def test_the_published_shapes_get_their_nodes_and_gpus(prefill: int) -> None:
    document = document_of(f"topology=dep8_prefill{prefill}x2")
    nodes, serving = PUBLISHED[prefill]
    assert document["nodes"] == nodes
    assert document["serving_gpus"] == serving == 2 * prefill + 8
    assert document["allocated_gpus"] == 4 * nodes
    assert document["segment"] == nodes
    assert f"#SBATCH --nodes={nodes}\n" in document["sbatch"]
    assert f"#SBATCH --segment={nodes}\n" in document["sbatch"]


def test_prefill_and_decode_never_share_a_node_unless_the_topology_says_so() -> None:
    for name in TOPOLOGIES:
        config = config_of(f"topology={name}")
        roles_on: dict[int, set[str]] = {}
        for worker in document_of(f"topology={name}")["workers"]:
            roles_on.setdefault(worker["node"], set()).add(worker["role"])
        mixed = any(len(roles) > 1 for roles in roles_on.values())
        assert mixed == config.topology.share_nodes


def test_the_five_shapes_and_all_their_variants_take_under_120_lines_of_yaml() -> None:
    files = [CONF_DIR / "topology" / f"dep8_prefill{n}x2.yaml" for n in PUBLISHED]
    files += [CONF_DIR / "flags" / "article.yaml", CONF_DIR / "workload" / "random_8k1k.yaml"]
    files += [CONF_DIR / "accuracy" / "gsm8k.yaml"]
    assert sum(_lines(path) for path in files) < 120
    assert max(_lines(path) for path in files[:5]) <= 8


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_an_open_value_is_named() -> None:
    with pytest.raises(PlanError, match=r"model\.path is not set"):
        config_of("model.path=???")


def test_options_of_the_stand_in_may_be_spelt_with_underscores() -> None:
    words = ("decode_kv_tokens=900", "transfer-mbps=1500", "frontend_ms=2")
    given = [f"+engine.options.{word}" for word in words]
    document = document_of("engine=rehearsal", *given)
    argv = document["workers"][-1]["argv"]
    options = parse_options(argv[argv.index("--role") :], {})
    assert (options.kv_tokens, options.transfer_mbps, options.frontend_ms) == (900, 1500.0, 2.0)


def test_a_rehearsal_needs_neither_gsm8k_nor_vllm() -> None:
    document = document_of("engine=rehearsal")
    assert document["accuracy"]["dataset"] == "word_problems"
    programs = {step["argv"][2] for step in document["workers"]}
    assert programs == {"jobs.rehearsal"}
    assert all(point["client"] == "native" for point in document["points"])
