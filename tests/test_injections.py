"""Each mistake put into a working command line is told, with exit code 2 and nothing on stdout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.injections import INJECTIONS
from tests.launching import launcher


@pytest.mark.parametrize("name", INJECTIONS)
def test_an_injected_mistake_is_told_before_anything_is_submitted(
    name: str, tmp_path: Path
) -> None:
    injection = INJECTIONS[name]
    said = launcher(tmp_path, *injection.words)
    assert said.returncode == 2, said.stderr
    assert said.stdout == ""
    assert "Traceback" not in said.stderr
    for words in injection.told:
        assert words in said.stderr, said.stderr


def test_one_mistake_is_one_problem(tmp_path: Path) -> None:
    for name in ("misspelt config key", "no ISL", "missing model path", "unequal block size"):
        said = launcher(tmp_path, *INJECTIONS[name].words)
        assert said.stderr.startswith("error: 1 problem found"), name
