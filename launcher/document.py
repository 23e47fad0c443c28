"""Plans as documents: plain values, text for files, stand-ins replaced by made-up names."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import re
from json.encoder import encode_basestring_ascii
from typing import Any

import orjson

TOKEN = re.compile(r"\{(?:node(\d+)\.(?:address|name)|run_dir|run_id|cache|kept|stage)\}")


def with_made_up_nodes(value: Any, run_dir: str) -> Any:
    """A document with node0, node1, ... as names and addresses, and a run directory."""
    if isinstance(value, str):
        return TOKEN.sub(lambda match: _made_up(match, run_dir), value)
    if isinstance(value, dict):
        return {key: with_made_up_nodes(item, run_dir) for key, item in value.items()}
    if isinstance(value, list):
        return [with_made_up_nodes(item, run_dir) for item in value]
    return value


def _made_up(match: re.Match[str], run_dir: str) -> str:
    if match.group(1) is not None:
        return f"node{match.group(1)}"
    made_up = {"{run_dir}": run_dir, "{cache}": "/CACHE", "{kept}": "/CACHES"}
    made_up["{stage}"] = "/MODELS"
    return made_up.get(match.group(0), run_dir.rsplit("/", 1)[-1])


def plain(value: Any) -> Any:
    """dataclasses.asdict for configurations and plans: the same mappings, lists and values.

    asdict copies every text and number by itself, which takes most of a sweep's time.
    """
    if value is None or type(value) in PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in _fields(type(value))}
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    return copy.deepcopy(value)


PLAIN = frozenset({str, int, float, bool})


@functools.cache
def _fields(kind: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def spread(value: Any, levels: int, pad: str = "") -> str:
    """JSON with the first levels on lines of their own and each deeper part on one line.

    json.dumps with an indent is written in Python, and a hundred run.json take a second in it.
    """
    if type(value) is str:
        return encode_basestring_ascii(value)
    inner = pad + " "
    if levels and isinstance(value, dict) and value and all(isinstance(k, str) for k in value):
        parts = [
            f"{encode_basestring_ascii(key)}: {spread(item, levels - 1, inner)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{pad}}}"
    if levels and isinstance(value, (list, tuple)) and value:
        parts = [spread(item, levels - 1, inner) for item in value]
        return "[\n" + ",\n".join(inner + part for part in parts) + f"\n{pad}]"
    return json.dumps(value)


def dumped(value: Any) -> str:
    """JSON on one line for programs, without blanks. What orjson does not take (numbers beyond 64
    bits, names that are no text) is written by json, which takes several times as long."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value)
