"""Every configuration key that an error text or a page of docs names is there."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest

from launcher.kinds import hints
from launcher.schema import LaunchConfig

ROOT = Path(__file__).resolve().parent.parent
GROUPS = [name for name in vars(LaunchConfig()) if "." not in name]
KEY = re.compile(rf"(?<![\w./-])(?:{'|'.join(GROUPS)})(?:\.[A-Za-z_][\w-]*)+(?![\w/({{])")
FILE_ENDINGS = (
    *("py", "md", "json", "jsonl", "log", "txt", "yaml", "toml", "html", "sh", "csv"),
    *("conf", "lock", "safetensors"),
)
OF_RUN_JSON = ("engine.protocol", "engine.rehearsal")
"""Entries of run.json, whose readers name them."""
MISTAKES = ("docs/injected-mistakes.md",)
"""Pages that show wrong keys on purpose."""


def exists(key: str) -> bool:
    """Whether a key is in the schema, or below one that takes any name."""
    known = hints()
    parts = key.split(".")
    if key in known:
        return True
    for end in range(len(parts) - 1, 0, -1):
        hint = known.get(".".join(parts[:end]))
        if hint is not None:
            values = get_args(hint)[1:]
            return get_origin(hint) is dict and not dataclasses.is_dataclass(values[0])
    return False


def texts_of(source: str) -> Iterator[str]:
    """String literals of a module but docstrings; an f-string's holes as {}."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_in(text: str) -> Iterator[str]:
    for found in KEY.finditer(text):
        if found[0].rsplit(".", 1)[-1] not in FILE_ENDINGS and found[0] not in OF_RUN_JSON:
            yield found[0]


def missing_in(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    texts = texts_of(text) if path.suffix == ".py" else [text]
    return sorted({key for it in texts for key in named_in(it) if not exists(key)})


@pytest.mark.parametrize("room", ["launcher", "jobs", "analysis", "docs", "conf", "."])
def test_every_key_that_is_named_exists(room: str) -> None:
    files = (ROOT / room).glob("*.md" if room == "." else "**/*")
    paths = [path for path in files if path.suffix in (".py", ".md", ".yaml")]
    found = {str(path.relative_to(ROOT)): missing_in(path) for path in paths}
    wrong = {name: keys for name, keys in found.items() if keys and name not in MISTAKES}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("use cluster.nodelist", ["cluster.nodelist"]),
        ("set flags.all.x, cluster.env.Y or cluster.budgets.point_s=3", []),
        ("see launcher/engine.py and engine.json", []),
    ],
)
def test_a_key_that_does_not_exist_is_seen(text: str, keys: list[str]) -> None:
    assert [key for key in named_in(text) if not exists(key)] == keys
