"""Each mistake put into a working command line is told, with exit code 2 and nothing on stdout."""

from __future__ import annotations

import pytest

from tests.injections import INJECTIONS, run


@pytest.mark.parametrize("name", INJECTIONS)
def test_an_injected_mistake_is_told_before_anything_is_submitted(name: str) -> None:
    injection = INJECTIONS[name]
    said = run(injection.words)
    assert said.code == 2, said.stderr
    assert said.stdout == ""
    assert "Traceback" not in said.stderr
    for words in injection.told:
        assert words in said.stderr, said.stderr


def test_one_mistake_is_one_problem() -> None:
    for name in ("misspelt config key", "no ISL", "missing model path", "unequal block size"):
        assert run(INJECTIONS[name].words).stderr.startswith("error: 1 problem found"), name
