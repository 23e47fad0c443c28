"""Layers of flags merged, and what they look like on a command line."""

from __future__ import annotations

import pytest

from launcher.errors import LauncherError
from launcher.flags import merge_flags, render_flags


def test_later_layers_win_and_null_removes() -> None:
    assert merge_flags({"a": 1, "b": 2}, {"a": 3, "b": None}) == {"a": 3}


def test_underscores_and_hyphens_name_the_same_flag() -> None:
    assert merge_flags({"max_num_seqs": 1}, {"max-num-seqs": 2}) == {"max-num-seqs": 2}


def test_mappings_merge_key_by_key_and_null_takes_one_away() -> None:
    merged = merge_flags({"kv": {"a": 1, "b": {"c": 2}}}, {"kv": {"b": {"d": 3}, "a": None}})
    assert merged == {"kv": {"b": {"c": 2, "d": 3}}}


def test_json_text_counts_as_the_mapping_it_spells() -> None:
    merged = merge_flags({"kv": {"kv_connector": "NixlConnector"}}, {"kv": '{"kv_role":"kv_both"}'})
    assert render_flags(merged, off_prefix="no-") == [
        "--kv",
        '{"kv_connector":"NixlConnector","kv_role":"kv_both"}',
    ]


def test_broken_json_text_is_refused_with_a_form_that_works() -> None:
    with pytest.raises(LauncherError, match=r"starts like JSON but is not.*flags\.all\.kv="):
        merge_flags({"kv": '{"kv_role":'})


def test_rendering_follows_how_the_program_says_no() -> None:
    flags = {"on": True, "off": False, "list": [1, 2], "number": 0.92}
    assert render_flags(flags, off_prefix="no-") == [
        *("--on", "--no-off", "--list", "1", "2", "--number", "0.92")
    ]
    assert "--no-off" not in render_flags(flags, off_prefix=None)


def test_a_whole_number_written_as_a_float_stays_whole() -> None:
    assert render_flags({"max-model-len": 16e3}, off_prefix="no-") == ["--max-model-len", "16000"]
