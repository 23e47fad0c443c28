"""Prompt files: the same bytes for the same seed, exact lengths, no shared beginnings."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.prompts.drawing import HEAD_TOKENS
from jobs.prompts.draws import Draws
from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import Pieces, id_pieces
from jobs.prompts.random_source import random_requests
from jobs.prompts.reader import PromptFile, PromptFileError, write_prompt_file
from jobs.prompts.sources import MAKERS
from jobs.prompts.spec import Spec

VOCABULARY = 50_000


@pytest.fixture(scope="session")
def pieces() -> Pieces:
    """Pieces of token ids."""
    return id_pieces(VOCABULARY)


def spec(**changes: Any) -> Spec:
    """A small point."""
    values: dict[str, Any] = {
        "count": 40,
        "warmup": 4,
        "input_range": (50, 200),
        "output_range": (3, 5),
        "seed": 1,
    }
    return Spec(**{**values, **changes})


def made(folder: Path, wanted: Spec, pieces: Pieces) -> PromptFile:
    """The file of a spec, opened."""
    path = folder / f"{wanted.key(pieces.identity)}.prompts"
    write_prompt_file(path, random_requests(wanted, pieces), pieces, {})
    return PromptFile.open(path)


def philox(block: int, key: int) -> list[int]:
    """Four words of Philox4x64-10 as defined by Salmon et al. (SC11), in plain Python."""
    low = (1 << 64) - 1
    c, k = [block, 0, 0, 0], [key & low, key >> 64]
    for _ in range(10):
        p, q = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(q >> 64) ^ c[1] ^ k[0], q & low, (p >> 64) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + 0x9E3779B97F4A7C15) & low, (k[1] + 0xBB67AE8584CAA73B) & low]
    return c


def test_a_stream_of_draws_is_the_same_on_every_machine() -> None:
    key = int.from_bytes(hashlib.sha256(b"a/1").digest()[:16], "little")
    words = [word for block in (1, 2, 3) for word in philox(block, key)]
    expected = [(word >> 32) * 1000 >> 32 for word in words]
    assert Draws("a", 1).below(1000, 12).tolist() == expected


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    tmp_path: Path, pieces: Pieces
) -> None:
    first, other = made(tmp_path, spec(), pieces), made(tmp_path, spec(seed=2), pieces)
    digest = hashlib.sha256(b"".join(map(first.json_prompt, range(len(first))))).hexdigest()
    assert digest == "b976b5cbbeb01c5d34f4714bdb019568cf4a8fd2d0d2fc2615353b4880055333"
    assert other.ids(5) != first.ids(5)


def test_a_whole_file_of_every_source_has_the_same_bytes_with_any_python_and_numpy(
    tmp_path: Path, pieces: Pieces
) -> None:
    trace = tmp_path / "trace.jsonl"
    line = '{{"timestamp": {}, "input_length": {}, "output_length": 5, "hash_ids": [1, {}]}}\n'
    trace.write_text("".join(line.format(*row) for row in ((500, 1100, 2), (1501, 900, 3))))
    more: dict[str, dict[str, Any]] = {
        "random": {},
        "shared_prefix": {"prefix_tokens": 30, "prefix_groups": 5},
        "multi_turn": {"turns": 3, "wait_s": 1.5},
        "trace": {"count": 2, "trace_path": str(trace), "trace_speed": 3.0},
    }
    digest = hashlib.sha256()
    for source, changes in more.items():
        path = tmp_path / f"{source}.prompts"
        write_prompt_file(path, MAKERS[source](spec(source=source, **changes), pieces), pieces, {})
        digest.update(path.read_bytes())
    # The same on CPython 3.11, 3.12 and 3.13 with numpy 1.26, 2.3 and 2.4.
    assert digest.hexdigest() == "74e41e27b22ae1f563fe68444595e5d7a61dbe0bc7f72b3e2350b1bfc3c789af"


@settings(max_examples=25, deadline=None)
@given(low=st.integers(1, 300), span=st.integers(0, 300), seed=st.integers(0, 2**40))
def test_every_prompt_has_exactly_its_tokens(
    low: int, span: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("exact")
    file = made(folder, spec(input_range=(low, low + span), seed=seed, count=20), _ids())
    for number in range(len(file)):
        assert len(file.ids(number)) == file.prompt_tokens[number]
        assert json.loads(file.json_prompt(number)) == file.ids(number)
        assert low <= file.prompt_tokens[number] <= low + span
        assert max(file.ids(number)) < VOCABULARY


_made: list[Pieces] = []


def _ids() -> Pieces:
    if not _made:
        _made.append(id_pieces(VOCABULARY))
    return _made[0]


def test_both_bounds_of_both_ranges_are_drawn(tmp_path: Path, pieces: Pieces) -> None:
    file = made(tmp_path, spec(count=400, input_range=(5, 8)), pieces)
    assert set(file.prompt_tokens.tolist()) == {5, 6, 7, 8}
    assert set(file.output_tokens.tolist()) == {3, 4, 5}
    assert (file.count, file.warmup, len(file)) == (400, 4, 404)


def test_a_measured_prompt_does_not_depend_on_the_number_of_warm_up_prompts(
    tmp_path: Path, pieces: Pieces
) -> None:
    without, with_ = (made(tmp_path, spec(warmup=w), pieces) for w in (0, 4))
    assert [without.ids(n) for n in range(40)] == [with_.ids(n + 4) for n in range(40)]
    assert without.ids(0) != with_.ids(0)


def test_no_two_prompts_of_the_top_point_share_a_block_nor_with_another_point(
    pieces: Pieces,
) -> None:
    heads = []
    for seed, count in ((8, 40_960), (7, 1024)):
        asked = spec(count=count, warmup=count // 8, seed=seed, input_range=(600, 700))
        requests = random_requests(asked, pieces)
        heads.append(requests.pieces[requests.starts[:-1, None] + np.arange(HEAD_TOKENS)])
    every = np.concatenate(heads)
    assert len(np.unique(every, axis=0)) == len(every) == 40_960 + 5120 + 1024 + 128


def test_prompts_that_must_begin_alike_are_refused() -> None:
    one = id_pieces(1)
    narrow = Pieces(form="ids", texts=one.texts, words=1, leads=1, blocks=1, identity="one id only")
    with pytest.raises(PromptError, match="begin alike"):
        random_requests(spec(), narrow)


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_torn_file_is_refused_with_its_name(tmp_path: Path, pieces: Pieces, cut: int) -> None:
    path = made(tmp_path, spec(), pieces).path
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(PromptFileError, match=path.name):
        PromptFile.open(path)


def test_a_changed_byte_is_found_by_the_checksum(tmp_path: Path, pieces: Pieces) -> None:
    path = made(tmp_path, spec(), pieces).path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(PromptFileError, match="checksum"):
        PromptFile.open(path)


def test_a_missing_file_and_a_foreign_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match="No such file"):
        PromptFile.open(tmp_path / "none.prompts")
    (tmp_path / "foreign.prompts").write_text("{}\n" * 100)
    with pytest.raises(PromptFileError, match="foreign"):
        PromptFile.open(tmp_path / "foreign.prompts")


def test_numbers_that_mean_nothing_are_refused() -> None:
    for wrong in (spec(input_range=(9, 8)), spec(output_range=(0, 1)), spec(count=0)):
        with pytest.raises(PromptError):
            wrong.check()
