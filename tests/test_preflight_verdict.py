"""What shows only when the nodes' answers lie side by side, and the table that tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.allocation import Node
from jobs.node_compare import Problem, block_of, clocks, compare, engines, model_files, unequal
from jobs.node_questions import listeners_on
from jobs.node_report import Answer, Finding, NodeReport
from jobs.node_table import Verdict, headline, own_problems, record, table
from jobs.records import from_json
from jobs.run_spec import Plan
from jobs.tokens import token_values
from tests.fakes_jobs import pair_run
from tests.nvidia_smi import UUID


def answer(
    index: int, *found: Finding, clock: tuple[float, float] = (100.2, 100.8), **facts: Any
) -> Answer:
    """gb<index>, asked at 100 and back at 101 by the driver's clock."""
    label = f"gb{index}"
    report = NodeReport(node=label, found=list(found), facts=facts, clock=list(clock))
    node = Node(index=index, name=label, address=f"10.0.0.{index}")
    made = Answer(node=node, label=label, asked_at=100.0, back_at=101.0, report=report)
    made.engine = facts.get("engine", {})
    return made


def bad(check: str, value: str = "in use", wanted: str = "free") -> Finding:
    return Finding(check=check, state="failed", value=value, wanted=wanted)


def plan_with(**more: Any) -> Plan:
    plan: Plan = from_json(Plan, pair_run(**more)["plan"])
    return plan


def shown(problems: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(p.check, p.nodes) for p in problems if p.state == "failed"]


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        ((100.2, 100.8), None),
        ((98.5, 100.0), None),
        ((96.0, 97.0), "4.0 s or more behind"),
        ((104.0, 105.5), "4.5 s or more ahead"),
        ((100.0, 103.0), None),
    ],
)
def test_a_clock_is_blamed_only_for_what_asking_cannot_explain(
    clock: tuple[float, float], said: str | None
) -> None:
    found = list(clocks([answer(1, clock=clock)], 2.0))
    assert [p.value.partition(" of the")[0] for p in found] == ([said] if said else [])


def test_the_odd_one_out_is_blamed_and_a_draw_blames_nobody() -> None:
    (odd,) = unequal("driver", {"a": "580", "b": "580", "c": "575"})
    assert (odd.nodes, odd.value, odd.blamed) == (("c",), "575", True)
    (draw,) = unequal("driver", {"a": "580", "b": "575"})
    assert (draw.nodes, draw.blamed) == (("a", "b"), False)
    assert list(unequal("driver", {"a": "580"})) == []


ENGINES = {
    "release": ({"vllm": "0.33.0"}, []),
    "local build": ({"vllm": "0.33.0+cu130"}, []),
    "older": ({"vllm": "0.32.0"}, ["failed"]),
    "candidate": ({"vllm": "0.33.0rc2"}, ["warned"]),
    "nightly": ({"vllm": "0.34.0.dev12+g1234"}, ["failed"]),
    "none": ({"python": "3.12"}, ["failed"]),
    "no number": ({"vllm": "main"}, ["failed"]),
}


@pytest.mark.parametrize(("installed", "states"), ENGINES.values(), ids=ENGINES)
def test_the_engine_must_be_the_pinned_release(
    installed: dict[str, str], states: list[str]
) -> None:
    assert [p.state for p in engines({"gb1": installed}, "0.33.0")] == states


def test_packages_beside_the_engine_must_agree() -> None:
    nodes = {f"gb{i}": {"vllm": "0.33.0", "nixl": "1.5.1"} for i in range(3)}
    nodes["gb1"]["nixl"] = "1.3.0"
    (odd,) = engines(nodes, "0.33.0")
    assert (odd.nodes, odd.value) == (("gb1",), "nixl 1.3.0")


def test_model_sizes_are_compared_with_those_at_submission() -> None:
    sizes = {"gb1": {"a": 5, "b": 7, "extra": 1}, "gb2": {"a": 5, "b": 6}, "gb3": {"a": 5}}
    found = list(model_files(sizes, {"a": 5, "b": 7}))
    assert [(p.nodes, p.value) for p in found] == [
        (("gb2",), "b: 6 bytes"),
        (("gb3",), "b: missing"),
    ]


def test_model_sizes_nobody_saw_at_submission_are_compared_with_most_nodes() -> None:
    sizes = {"gb1": {"a": 5}, "gb2": {"a": 5}, "gb3": {"a": 4}}
    assert shown(model_files(sizes, {})) == [("model files", ("gb3",))]


def domain(index: int, clique: int, cluster: str = UUID) -> Answer:
    return answer(index, nvlink_domains=[f"{cluster}/{clique}"])


@pytest.mark.parametrize(
    ("cliques", "segment", "expected"),
    [
        ([1, 1, 1, 1], 4, []),
        ([1, 1, 1, 2], 4, [("NVLink domain", ("gb3",))]),
        ([1, 1, 2, 2], 4, [("NVLink domain", ("gb0", "gb1", "gb2", "gb3"))]),
        ([1, 1, 2, 2], 2, []),
        ([1, 2, 2, 2], 2, [("NVLink domain", ("gb0", "gb1"))]),
        ([1, 2, 3, 4], None, []),
    ],
)
def test_nodes_of_a_segment_share_one_domain(
    cliques: list[int], segment: int | None, expected: list[Any]
) -> None:
    answers = [domain(index, clique) for index, clique in enumerate(cliques)]
    plan = plan_with(nodes=4, segment=segment)
    assert shown(compare(answers, plan, "0.33.0")) == expected


def test_without_segments_an_endpoint_over_two_domains_is_a_warning() -> None:
    document = pair_run()["plan"]
    document["workers"][1] |= {"role": "prefill", "name": "prefill0-n1"}
    plan: Plan = from_json(Plan, document)
    (found,) = compare([domain(0, 1), domain(1, 2)], plan, "0.33.0")
    assert (found.check, found.state) == ("NVLink domain", "warned")


def test_slurms_blocks_tell_domains_apart_and_its_switches_do_not() -> None:
    def at(index: int, address: str, pattern: str = "block.node") -> Answer:
        facts: dict[str, Any] = {
            "slurm_topology_addr": address,
            "slurm_topology_addr_pattern": pattern,
        }
        return answer(index, **facts)

    answers = [at(0, "rack1.gb0"), at(1, "rack1.gb1"), at(2, "rack2.gb2.site")]
    plan = plan_with(nodes=3, segment=3)
    assert shown(compare(answers, plan, "0.33.0")) == [("Slurm block", ("gb2",))]
    assert block_of(at(0, "s0.s4.gb0", "switch.switch.node").facts) is None
    assert block_of({}) is None


def test_a_driver_that_differs_is_named() -> None:
    answers = [answer(i, driver="580.1" if i else "575.1") for i in range(4)]
    assert shown(compare(answers, plan_with(nodes=4), "0.33.0")) == [("driver", ("gb0",))]


def test_equal_findings_stand_in_one_row_with_the_number_of_nodes() -> None:
    answers = [answer(i, bad("ports"), bad("memory", "3 GB", "4 GB")) for i in range(9)]
    silent = Answer(
        node=Node(index=9, name="gb9", address="10.0.0.9"),
        label="gb9",
        asked_at=100.0,
        back_at=101.0,
        trouble="no answer within 20 s",
    )
    answers.append(silent)
    verdict = Verdict(answers=answers, problems=own_problems(answers), took_s=1.25, budget_s=20.0)
    assert headline(verdict) == (
        "10 of 10 nodes not fit: answer: 1 node, memory: 9 nodes, ports: 9 nodes (after 1.2 s)"
    )
    rows = table(verdict.problems)
    assert len(rows) == 4
    assert rows[0].split() == ["check", "nodes", "which", "found", "wanted"]
    assert "gb0, gb1, gb2, gb3, gb4, gb5 and 3 more" in rows[2]
    assert verdict.bad_nodes["gb9"] == "answer: no answer within 20 s"
    kept = record(verdict, "2026-01-01T00:00:00+00:00")
    assert kept["fit"] is False
    assert kept["nodes"]["gb0"]["checks"]["ports"] == {
        "state": "failed",
        "value": "in use",
        "wanted": "free",
    }


def test_a_draw_cannot_tell_which_node_to_leave_out() -> None:
    answers = [answer(0, driver="1"), answer(1, driver="2")]
    problems: list[Problem] = list(compare(answers, plan_with(), "0.33.0"))
    verdict = Verdict(answers=answers, problems=problems, took_s=1.0, budget_s=20.0)
    assert verdict.guesses == ["driver"]


def test_every_listener_of_a_node_is_asked_about_once() -> None:
    node = Node(index=0, name="gb0", address="10.0.0.0")
    values = token_values([node], Path("/runs/r1"), "r1")
    found = listeners_on(node, plan_with(prefill_dp=2), dict(values))
    assert [(entry["owner"], entry["what"]) for entry in found] == [
        ("router", "http"),
        ("router", "metrics"),
        ("prefill0", "http"),
        ("prefill0", "nixl side channel rank 0"),
        ("prefill0", "nixl side channel rank 1"),
    ]
