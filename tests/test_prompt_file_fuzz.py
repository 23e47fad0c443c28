"""Prompt files of other makers: whatever is in one, reading it works or is refused in one line."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.prompts.pieces import id_pieces
from jobs.prompts.random_source import random_requests
from jobs.prompts.reader import PromptFile, PromptFileError, write_prompt_file
from jobs.prompts.spec import Spec

HOSTILE: tuple[Any, ...] = (
    *(None, -1, 0, 1, 2**31, 2**62, 2**63, -(2**63), 1.5, True, "x", "U8", "F64", "<u1"),
    *([], [0], [0, 1], [1, 0], [-8, 8], [0, 2**40], [2**40], [-1], [[1]], {}),
)
ABOUT = ("form", "warmup", "version")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], bytes]:
    """A place for a file, and the header and the data of a good one."""
    path = tmp_path_factory.mktemp("fuzz") / "f.prompts"
    pieces = id_pieces(50)
    asked = Spec(count=3, warmup=1, input_range=(20, 90), output_range=(1, 2))
    write_prompt_file(path, random_requests(asked, pieces), pieces, {})
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return path, json.loads(content[8:end]), content[end:]


def put(path: Path, header: Mapping[str, Any], data: bytes) -> None:
    """A file of that header and data, with a right checksum wherever it has one."""
    told = copy.deepcopy(dict(header))
    if isinstance(told.get("__metadata__"), dict):
        told["__metadata__"]["sha256"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(told).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read(path: Path) -> str:
    """Every request of a file, in every way; "" or why it was refused."""
    try:
        file = PromptFile.open(path)
        for number in range(len(file)):
            file.json_prompt(number)
            file.text(number)
            file.ids(number)
    except PromptFileError as error:
        return str(error)
    return ""


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(choices=st.data())
def test_any_header_is_read_or_refused(
    choices: st.DataObject, whole: tuple[Path, dict[str, Any], bytes]
) -> None:
    path, header, data = whole
    told = copy.deepcopy(header)
    value = copy.deepcopy(choices.draw(st.sampled_from(HOSTILE)))
    name = choices.draw(st.sampled_from([*sorted(told), *ABOUT]))
    if name in ABOUT:
        about = json.loads(told["__metadata__"]["prompts"]) | {name: value}
        told["__metadata__"]["prompts"] = json.dumps(about)
    else:
        within = choices.draw(st.sampled_from(["", *sorted(told[name])]))
        (told[name] if within else told)[within or name] = value
    put(path, told, data)
    refused = read(path)
    assert not refused or refused.startswith(str(path))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 2**20), byte=st.integers(0, 255))
def test_any_data_with_a_right_checksum_is_read_or_refused(
    at: int, byte: int, whole: tuple[Path, dict[str, Any], bytes]
) -> None:
    path, header, data = whole
    changed = bytearray(data)
    changed[at % len(changed)] = byte
    put(path, header, bytes(changed))
    refused = read(path)
    assert not refused or refused.startswith(str(path))


@pytest.mark.parametrize("length", [0, 1, 2**24, 2**24 + 1, 2**63, 2**64 - 1])
def test_a_header_of_another_length_than_it_has_is_refused_without_reading_it(
    length: int, whole: tuple[Path, dict[str, Any], bytes]
) -> None:
    path, header, data = whole
    path.write_bytes(length.to_bytes(8, "little") + json.dumps(header).encode() + data)
    assert "no header of a prompt file" in read(path)


def test_a_header_nested_without_end_is_refused(
    whole: tuple[Path, dict[str, Any], bytes],
) -> None:
    path = whole[0]
    text = b"[" * 200_000
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert "torn or damaged" in read(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pieces", "has no pieces"),
        ("output_tokens", "has no output_tokens"),
        ("text_starts", "has no text_starts"),
    ],
)
def test_what_is_missing_is_named(
    name: str, said: str, whole: tuple[Path, dict[str, Any], bytes]
) -> None:
    path, header, data = whole
    put(path, {key: entry for key, entry in header.items() if key != name}, data)
    assert said in read(path)


def test_what_a_file_says_of_itself_is_checked(
    whole: tuple[Path, dict[str, Any], bytes],
) -> None:
    path, header, data = whole
    told = copy.deepcopy(header)
    about = json.loads(told["__metadata__"]["prompts"])
    told["__metadata__"]["prompts"] = json.dumps(about | {"warmup": 5, "form": "texts"})
    put(path, told, data)
    assert "form 'texts': allowed: text, ids, messages; warmup 5: allowed: 0 to 4" in read(path)
