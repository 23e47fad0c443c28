"""Segments that a cluster's blocks can or cannot hold, and what is said and done about it."""

from __future__ import annotations

import pytest

from launcher.batch import sbatch_text
from launcher.blocks import block_nodes, holds, segment_advice
from launcher.segment import smaller_segments
from tests.compose import AROUND, plan_of

RACKS = {"rack1": 18, "rack2": 18}
TOPOLOGY = """BlockName=rack1 BlockIndex=0 Nodes=node[1-18] BlockSize=18
BlockName=rack2 BlockIndex=1 Nodes=node[19-36] BlockSize=18
"""

SLURM_SAID = [
    (20, 20, False),
    (20, 10, True),
    (20, 8, False),
    (24, 8, True),
    (24, 12, True),
    (27, 9, True),
    (36, 18, True),
    (36, 9, True),
    (38, 19, False),
    (40, 10, False),
]
"""(nodes, segment, accepted) by Slurm 24.11.5 with topology/block, 2 blocks of 18 nodes."""


@pytest.mark.parametrize(("nodes", "segment", "accepted"), SLURM_SAID)
def test_what_blocks_hold_is_what_slurm_says(nodes: int, segment: int, accepted: bool) -> None:
    assert holds(RACKS, nodes, segment) is accepted


def test_an_excluded_node_makes_its_block_smaller() -> None:
    assert not holds({"rack1": 17, "rack2": 17}, 18, 18)
    assert holds({"rack1": 17, "rack2": 17}, 18, 9)
    assert not holds({"rack1": 11, "rack2": 18}, 24, 12)


def test_blocks_are_read_from_scontrol_and_a_tree_has_none() -> None:
    assert block_nodes(TOPOLOGY) == {"rack1": "node[1-18]", "rack2": "node[19-36]"}
    assert block_nodes("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=node[1-36]\n") == {}
    assert block_nodes("") == {}
    nested = f"{TOPOLOGY}BlockName=rack1,rack2 BlockIndex=2 Nodes=node[1-36] BlockSize=36\n"
    assert holds({"rack1": 18, "rack2": 18}, 36, 18)
    assert list(block_nodes(nested))[:2] == ["rack1", "rack2"]


def test_smaller_segments_divide_and_cut_no_endpoint() -> None:
    """Decode's two nodes stay together: 8 nodes of prefill before them, and 9."""
    _, ten = plan_of("topology.roles.prefill.endpoints=16")
    assert ten.nodes == 10
    assert smaller_segments(ten, 10) == [5, 2]
    assert smaller_segments(ten, 5) == [2]
    _, nine = plan_of("topology.roles.prefill.endpoints=14")
    assert nine.nodes == 9
    assert smaller_segments(nine, 9) == [3]  # nodes 7 and 8 are decode's


def test_the_advice_names_what_fits_and_how_to_get_it() -> None:
    text = segment_advice(20, 20, [10, 5, 4, 2, 1], RACKS)
    assert "20 nodes in segments of 20 do not fit" in text
    assert "rack1 18, rack2 18" in text
    assert "segments that fit: 10, 5, 4, 2, 1; set cluster.segment=10" in text


def test_the_advice_is_honest_when_nothing_fits_or_nothing_is_known() -> None:
    assert "nor does any smaller one" in segment_advice(40, 40, [20, 10], RACKS)
    assert "no smaller divisor of 7" in segment_advice(7, 7, [], RACKS)
    unknown = segment_advice(20, 20, [10, 5], None)
    assert "blocks are not known" in unknown
    assert "segments that divide it and cut no endpoint: 10, 5" in unknown


def test_a_smaller_segment_takes_the_place_of_the_plans_own() -> None:
    plan, placement = plan_of("topology=dep8_prefill4x2")
    script = sbatch_text(plan, placement, "n", "/RUN", AROUND)
    assert "#SBATCH --segment=4\n" in script
