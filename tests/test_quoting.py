"""The overrides of docs/configure.md as a shell and Hydra read them, down to the configuration."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compose import config_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "configure.md").read_text(encoding="utf-8")
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}

MEANT: dict[str, tuple[str, Any]] = {
    "'workload.concurrency=[64,128]'": ("workload.concurrency", [64, 128]),
    "\"name='a,b'\"": ("name", "a,b"),
    "\"+model.env.OPTIONS='a=1'\"": ("model.env.OPTIONS", "a=1"),
    "\"+model.env.OPTIONS='a&b'\"": ("model.env.OPTIONS", "a&b"),
    "\"+model.env.OPTIONS='[a]'\"": ("model.env.OPTIONS", "[a]"),
    "model.path=/models/a:b": ("model.path", "/models/a:b"),
    "\"cluster.account='123'\"": ("cluster.account", "123"),
    "\"cluster.account='on'\"": ("cluster.account", "on"),
    "\"cluster.time='1:30:00'\"": ("cluster.time", "1:30:00"),
}


def table() -> list[str]:
    """Every override in the page's table, as typed."""
    rows = re.findall(r"^\| .+ \| (.+) \|$", PAGE[PAGE.index("## Quoting") :], re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("typed", MEANT)
def test_what_the_page_writes_is_what_the_configuration_has(typed: str) -> None:
    assert typed in table()
    key, value = MEANT[typed]
    found: Any = config_of(*shlex.split(typed))
    for part in key.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_mapping_and_json_text_end_in_the_same_json() -> None:
    forms = [typed for typed in table() if "kv-transfer-config" in typed]
    assert len(forms) == 2
    for typed in forms:
        value = config_of(*shlex.split(typed)).flags.all["kv-transfer-config"]
        found = json.loads(value) if isinstance(value, str) else value
        assert {key: found[key] for key in NIXL} == NIXL


COMPLETIONS = {
    "python -m launcher topology=dep8_prefill8": "topology=dep8_prefill8x2",
    "python3 -m launcher -m topology=dp1": "topology=dp1_prefill1x1",
    "python -m launcher -m topology=dp1_prefill1x1,dep8_prefill5": (
        "topology=dp1_prefill1x1,dep8_prefill5x2"
    ),
    "python -m launcher workload.is": "workload.isl=",
    "python -m launcher accuracy=none engine=rehear": "engine=rehearsal",
}


@pytest.mark.parametrize("line", COMPLETIONS)
def test_tab_completes_groups_options_and_keys(line: str) -> None:
    script = (
        f"source launcher/completion.bash; COMP_LINE={shlex.quote(line)}; "
        "COMP_POINT=${#COMP_LINE}; COMP_WORDS=(python); _launcher_completion; "
        'echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert COMPLETIONS[line] in done.stdout.split()
