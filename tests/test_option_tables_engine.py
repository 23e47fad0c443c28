"""The shipped table of flags against the installed vLLM itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.engines.vllm import VllmEngine
from launcher.engines.vllm_flags import entry_problems
from launcher.flags import render_flags
from launcher.options.layers import Written, merged
from launcher.options.table import Table, vllm_table
from tests.compose import config_of
from tests.engine import ENGINE_ENV, needs_engine

pytestmark = [pytest.mark.engine, needs_engine]

HERE = Path(__file__).resolve().parent
PYTHON = ENGINE_ENV / "bin" / "python"
INSTALLED = vllm_table("0.32.0")
VALUES: tuple[Any, ...] = (True, False, 1, 2.5, "word", "auto", "8k", "None", '{"a":1}', [1, 2])
TOLD_OTHERWISE = {
    "gdn-prefill-backend": "auto is refused by launcher/known_bad/, with what to do",
    "kv-transfer-config": "its keys and their meaning have a check of their own (vllm_transfer.py)",
    "speculative-config": "the parser takes any JSON; the engine refuses unknown keys later",
    "lora-modules": "takes name=path, which an action of the parser checks and no table tells",
    "long-prefill-token-threshold": "its --no- form is an abbreviation of another flag's",
}
"""Options for which parser and table differ, with the reason."""
STRICTER = {"a mapping would become JSON text", "one value and no list"}
"""What the parser would take as text, and the launcher refuses: hardly anybody means it."""


def answers(argvs: list[list[str]]) -> list[bool]:
    """Which command lines the installed release's parser takes."""
    done = subprocess.run(
        [str(PYTHON), str(HERE / "engine_parse.py")],
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [answer is True for answer in json.loads(done.stdout.splitlines()[-1])]


def cases(table: Table) -> list[tuple[str, Any]]:
    """Every option with every kind of value, its choices, its other names; and slips of the pen."""
    found: list[tuple[str, Any]] = []
    for name, spec in table.names("flags").items():
        if name == "config":
            continue
        found += [(name, value) for value in (*VALUES, *spec.get("choices", ())[:2])]
        others = [*spec.get("also", ()), *spec.get("inverse", ())]
        found += [(other, value) for other in others for value in (True, False, 1)]
        found += [(f"{name}z", 1), (f"no-{name}", True)]
    return found


def shipped() -> list[dict[str, Any]]:
    """The flags of every role that a shipped configuration starts on CPU."""
    found: list[dict[str, Any]] = []
    for experiment in ("demo", "demo_hybrid"):
        config = config_of(f"experiment={experiment}")
        for role in config.topology.roles:
            found.append({name: entry.value for name, entry in merged(config, role).items()})
    return found


def test_the_installed_parser_takes_and_refuses_what_the_table_says() -> None:
    pairs = cases(INSTALLED)
    argvs = [render_flags({name: value}, off_prefix="no-") for name, value in pairs]
    argvs += [render_flags(flags, off_prefix="no-") for flags in shipped()]
    taken = answers(argvs)
    assert all(taken[len(pairs) :])
    differing: list[str] = []
    for (name, value), real in zip(pairs, taken, strict=False):
        if name.removeprefix("no-") in TOLD_OTHERWISE:
            continue
        ours = list(entry_problems(INSTALLED, Written(name, name, value)))
        if real != (not ours) and not any(word in text for text in ours for word in STRICTER):
            differing.append(f"--{name} {value!r}: parser {'takes' if real else 'refuses'}, {ours}")
    assert differing == []


def test_asking_the_installed_release_again_gives_what_is_shipped(tmp_path: Path) -> None:
    script = HERE.parent / "envs" / "flag_tables" / "dump_release.py"
    out = tmp_path / "installed.json"
    done = subprocess.run(
        [str(PYTHON), str(script), str(out)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: Mapping[str, Any] = json.loads(out.read_text())
    assert told["flags"] == INSTALLED.names("flags")
    assert told["nixl"] == INSTALLED.names("nixl")
    assert set(told["connectors"]) == set(INSTALLED.names("connectors"))
    assert told["resolved"] == {
        name: INSTALLED.spec("resolved", name) for name in INSTALLED.names("resolved")
    }
    variables = {name: spec for name, spec in told["env"].items() if name.startswith("VLLM_")}
    shipped_variables = INSTALLED.names("env")
    assert {name: shipped_variables.get(name) for name in variables} == variables
    for name in INSTALLED.data["configs"]:
        assert told["configs"].get(name, {}) == INSTALLED.names("configs", name)


def test_every_flag_that_the_launcher_keeps_for_itself_is_one_of_the_release() -> None:
    not_options = {"headless", "model"} - set(INSTALLED.names("flags"))
    unknown = VllmEngine.owned_flags - set(INSTALLED.names("flags")) - not_options
    assert unknown == set()
