"""What is made once while nothing changes, and what every rule on texts looks at."""

from __future__ import annotations

from launcher.plan import build_plan
from launcher.steady import made_once, steady
from launcher.texts import texts_in
from launcher.validate import find
from tests.compose import config_of


def test_a_result_is_kept_for_an_object_inside_steady_only() -> None:
    asked: list[list[int]] = []

    @made_once
    def total(values: list[int]) -> int:
        asked.append(values)
        return sum(values)

    first, same = [1, 2], [1, 2]
    with steady():
        assert [total(first), total(first), total(same)] == [3, 3, 3]
    assert asked == [first, same]
    first.append(3)
    assert total(first) == 6
    with steady():
        assert total(first) == 6


def test_many_objects_that_come_and_go_are_never_taken_for_one_another() -> None:
    @made_once
    def length(values: list[int]) -> int:
        return len(values)

    with steady():
        assert [length([0] * size) for size in range(200)] == list(range(200))


def test_a_configuration_changed_between_two_checks_is_looked_at_anew() -> None:
    config = config_of("topology=dep8_prefill4x2")
    assert find(config).problems == ()
    nodes = len(build_plan(config).endpoints)
    config.topology.roles["prefill"].endpoints = 100
    assert len(build_plan(config).endpoints) == nodes + 96
    config.workload.concurrency = []
    config.model.env["X"] = " ??? "
    config.flags.env["Y"] = "a\nb"
    told = " ".join(find(config).problems)
    for part in ("workload.concurrency=[]", "model.env.X=' ??? '", "flags.env.Y='a\\nb'"):
        assert part in told


def test_the_texts_of_a_configuration_are_values_and_names_wherever_they_stand() -> None:
    config = config_of("topology=dep8_prefill4x2")
    config.model.flags["deep"] = {"name in a mapping": ["in a list", {"deeper": 1}]}
    assert {"name in a mapping", "in a list", "deeper", "prefill"} <= texts_in(config)
