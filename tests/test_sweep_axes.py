"""What a command line's axes mean: Hydra's own product, lists, quoted commas, coupled values."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from launcher.composing import CONF_DIR
from launcher.errors import LauncherError
from launcher.schema import register
from launcher.sweep.composer import Composer
from launcher.sweep_axes import read_axes
from tests.sweep_lines import QUICK, combinations_of, members_of

PRODUCTS = (
    ["workload.isl=256,512", "workload.osl=8,16,32"],
    ["workload.concurrency=[4,8],[16,32]"],
    ["workload.isl=range(4,17,4)"],
    ["workload.range_ratio=choice(0.5,1.0)", "name=a"],
    ["name='a,b'"],
    ["workload.isl=4,8", "name='run_${workload.isl}'"],
)


@pytest.mark.parametrize("words", PRODUCTS, ids=" ".join)
def test_a_product_is_hydras_own(words: list[str]) -> None:
    parsed = OverridesParser.create().parse_overrides(words)
    hydras = [row for batch in BasicSweeper.split_arguments(parsed, None) for row in batch]
    ours = [list(row) for row in read_axes(words).combinations()]
    parse = OverridesParser.create().parse_override
    assert [[parse(w).value() for w in row] for row in ours] == [
        [parse(w).value() for w in row] for row in hydras
    ]


def test_a_list_is_one_value_and_bare_numbers_are_lists_of_one() -> None:
    lists = members_of("workload.concurrency=[4,8],[16,32]")
    assert [member.config.workload.concurrency for member in lists] == [[4, 8], [16, 32]]
    single = members_of("workload.concurrency=4,8")
    assert [member.config.workload.concurrency for member in single] == [[4], [8]]
    counted = members_of("workload.concurrency=range(4,17,4)")
    assert [member.config.workload.concurrency for member in counted] == [[4], [8], [12], [16]]


def test_a_glob_is_every_option_of_that_kind() -> None:
    rows = combinations_of("topology=glob(dep8_prefill*)")
    assert rows == [(f"topology=dep8_prefill{n}x2",) for n in (4, 5, 6, 7, 8)]


def test_a_quoted_comma_makes_no_axis() -> None:
    (only,) = members_of("name='a,b'")
    assert only.config.name == "a,b"


def test_names_built_from_swept_values_resolve_in_each_combination() -> None:
    made = members_of("workload.isl=128,256", "name='run_${workload.isl}'")
    assert [member.config.name for member in made] == ["run_128", "run_256"]


def test_a_mapping_as_an_axis_couples_its_values() -> None:
    axis = "topology.roles.decode={tp:1,dp:2},{tp:2,dp:1}"
    made = members_of("topology=dep2_prefill1x2", axis)
    shapes = [member.config.topology.roles["decode"] for member in made]
    assert [(shape.tp, shape.dp) for shape in shapes] == [(1, 2), (2, 1)]


def test_zipped_axes_move_together_and_multiply_with_the_others() -> None:
    rows = combinations_of(
        "sweep.zip=[[topology,workload.concurrency]]",
        "topology=dep8_prefill4x2,dep8_prefill5x2,dep8_prefill6x2",
        "workload.osl=8,16",
        "workload.concurrency=[64],[128],[256,512]",
    )
    assert [row[1:] for row in rows] == [
        (f"topology=dep8_prefill{n}x2", f"workload.osl={osl}", f"workload.concurrency={c}")
        for n, c in ((4, "[64]"), (5, "[128]"), (6, "[256,512]"))
        for osl in (8, 16)
    ]


WRONG_ZIPS = {
    "[[topology,workload.isl]]": "topology has 2, workload.isl has 3",
    "[[topology,workload.osl]]": "workload.osl is no axis of this sweep",
    "[[topology]]": "allowed: a list of lists of at least two axes",
    "topology": "allowed: a list of lists of at least two axes",
    "[[topology,name],[topology,workload.isl]]": "topology is named more than once",
}


@pytest.mark.parametrize("value", WRONG_ZIPS)
def test_a_wrong_zip_says_what_is_wrong(value: str) -> None:
    words = ("topology=dep8_prefill4x2,dep8_prefill5x2", "workload.isl=1,2,3", "name=a,b")
    with pytest.raises(LauncherError, match=WRONG_ZIPS[value].replace("[", r"\[")):
        combinations_of(f"sweep.zip={value}", *words)


def test_an_interval_is_no_list_of_values() -> None:
    with pytest.raises(HydraException, match=r"range\(start,stop,step\)"):
        read_axes(["workload.range_ratio=interval(0,1)"])


COMPOSED: tuple[list[str], ...] = (
    [],
    ["flags=article_mnnvl", "+flags.all.max-num-seqs=512"],
    ["~experiment", "workload.isl=9"],
    ["experiment=demo", "workload.seed=3", "cluster.env.GLOO_SOCKET_IFNAME=eth1"],
    ["+cluster.sbatch.comment='x,y'", "hydra.verbose=true"],
    ["++topology.roles.decode.flags.max-num-seqs=8", "workload.concurrency=[1,2]"],
)


@pytest.mark.parametrize("words", COMPOSED, ids=" ".join)
def test_a_shared_composition_gives_what_hydra_gives(words: list[str]) -> None:
    register()
    composer = Composer()
    for _ in range(2):  # the second comes from the kept composition
        ours = composer.combination([*QUICK, *words]).config
        with initialize_config_dir(str(CONF_DIR), version_base=None):
            hydras = compose("config", overrides=[*QUICK, *words])
        assert OmegaConf.to_container(ours) == OmegaConf.to_container(hydras)


@pytest.mark.parametrize("word", ["workload.seed=range(1,3),7", "workload.seed=7,choice(1,2)"])
def test_a_sweep_inside_a_list_of_values_is_told_in_plain_words(word: str) -> None:
    with pytest.raises(HydraException, match=r"has to stand alone: write the values out"):
        read_axes([word])
