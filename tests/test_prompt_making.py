"""Prompts of text: probed tokenizers, exact lengths after encoding, sources, and the cache."""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.prompts import probe as probing
from jobs.prompts.cache import PromptCache, own_folder
from jobs.prompts.errors import PromptError
from jobs.prompts.making import Maker
from jobs.prompts.pieces import Pieces
from jobs.prompts.pieces_file import save_pieces
from jobs.prompts.probe import NoSafePiecesError, probe
from jobs.prompts.reader import PromptFile, PromptFileError
from jobs.prompts.repair import repaired_requests
from jobs.prompts.spec import Spec
from jobs.prompts.surround import surround_of
from jobs.prompts.tokenizer import folder_hash
from jobs.prompts.trace_file import read_trace
from jobs.prompts.vllm_lines import write_lines
from jobs.prompts.words import Words, every_pair, safe_words, single_token_words
from tests.toy_tokenizers import WORDS, ToyTokenizer

CHAT = ("<aab>", "<pob>")
JOINED = tuple(f"{a} {b}" for a, b in itertools.pairwise(WORDS[::5]))
TOYS = {
    "bytelevel": ToyTokenizer(),
    "bytelevel-bos": ToyTokenizer(special=(1, 1), template=CHAT),
    "sentencepiece": ToyTokenizer("sentencepiece", special=(1, 0), template=CHAT, strips=True),
    "superwords": ToyTokenizer("superwords", JOINED),
}


@pytest.fixture(autouse=True)
def _few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy tokenizers are slow and small: fewer blocks are enough to draw from."""
    monkeypatch.setattr(probing, "NUM_BLOCKS", 300)
    monkeypatch.setattr(probing, "NUM_WORDS", 64)
    monkeypatch.setattr(probing, "MIN_BLOCKS", 64)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> PromptCache:
    """One cache for all tests: a tokenizer is probed once."""
    return PromptCache(tmp_path_factory.mktemp("kept"))


def spec(**changes: Any) -> Spec:
    """A small point."""
    values: dict[str, Any] = {
        "count": 12,
        "warmup": 3,
        "input_range": (20, 300),
        "output_range": (3, 9),
        "seed": 1,
    }
    return Spec(**{**values, **changes})


def maker(cache: PromptCache, toy: ToyTokenizer, context: str = "plain", **more: Any) -> Maker:
    """A maker of text prompts."""
    return Maker(cache=cache, form="text", context=context, tokenizer=toy, **more)


def made(cache: PromptCache, toy: ToyTokenizer, wanted: Spec, context: str = "plain") -> PromptFile:
    """The file of a spec, opened."""
    out = cache.folder / "out" / "x.prompts"
    maker(cache, toy, context).make(wanted, out)
    return PromptFile.open(out)


def texts(file: PromptFile) -> list[str]:
    """All prompts."""
    return [file.text(number).decode() for number in range(len(file))]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(low=st.integers(17, 200), span=st.integers(0, 200), seed=st.integers(0, 2**40))
@pytest.mark.parametrize("name", sorted(TOYS))
def test_every_prompt_encodes_to_exactly_its_tokens(
    name: str, low: int, span: int, seed: int, kept: PromptCache
) -> None:
    toy = TOYS[name]
    wanted = spec(input_range=(low, low + span), seed=seed, count=5)
    file = made(kept, toy, wanted)
    assert [len(ids) for ids in toy.encode(texts(file))] == file.prompt_tokens.tolist()
    assert file.meta["encoded_again"] == len(file) == 8
    assert [json.loads(file.json_prompt(n)) for n in range(len(file))] == texts(file)


@pytest.mark.parametrize("name", ["bytelevel-bos", "sentencepiece"])
def test_template_and_special_tokens_count(name: str, kept: PromptCache) -> None:
    toy = TOYS[name]
    file = made(kept, toy, spec(), "template")
    assert [len(ids) for ids in toy.encode(texts(file))] == file.prompt_tokens.tolist()
    assert all(text.startswith(CHAT[0]) and text.endswith(CHAT[1]) for text in texts(file))


def test_with_a_template_the_range_is_that_of_the_published_client(kept: PromptCache) -> None:
    toy = TOYS["bytelevel-bos"]
    extra = len(toy.encode([toy.render(WORDS[0])])[0]) - 1
    asked = spec(count=600, input_range=(40, 50), template_ratio=0.8)
    file = made(kept, toy, asked, "template")
    low = int((50 - extra) * 0.8) + extra
    assert set(file.prompt_tokens.tolist()) == set(range(low, 51))


def test_every_ordered_pair_of_joining_words_is_encoded() -> None:
    row = list(every_pair(7))
    assert set(itertools.pairwise(row)) == set(itertools.product(range(7), repeat=2))
    assert len(row) == 50


def test_words_that_a_tokenizer_joins_are_not_put_beside_each_other() -> None:
    joined = [f"{a} {b}" for a, b in itertools.pairwise(WORDS[:120:3])]
    toy = ToyTokenizer("superwords", joined, words=WORDS[:120])
    words = single_token_words(toy)
    chosen = safe_words(toy, words, len(words.texts))
    assert 60 <= len(chosen) < len(words.texts)
    for pair in joined:
        assert not {words.texts.index(" " + word) for word in pair.split()} <= set(chosen)


def test_a_tokenizer_that_joins_any_two_words_has_no_safe_pieces() -> None:
    toy = ToyTokenizer(
        "superwords", words=WORDS[:40], joined=[f"{a} {b}" for a in WORDS[:40] for b in WORDS[:40]]
    )
    with pytest.raises(NoSafePiecesError, match="stay apart"):
        probe(toy, "plain", "toy")


def test_without_safe_pieces_each_prompt_is_mended_to_its_length_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toy = ToyTokenizer(
        "superwords",
        words=WORDS[:60],
        joined=[f"{a} {b}" for a in WORDS[:60] for b in WORDS[:60:2]],
    )
    file = made(PromptCache(tmp_path), toy, spec(input_range=(30, 90)))
    assert [len(ids) for ids in toy.encode(texts(file))] == file.prompt_tokens.tolist()
    assert len(set(texts(file))) == len(file)
    assert "joined in any order" in caplog.text
    assert file.meta["unsafe"]


def test_a_vocabulary_without_words_is_an_error_that_names_the_way_out() -> None:
    surround = surround_of(TOYS["bytelevel"], "plain")
    with pytest.raises(PromptError, match="prompt_form=ids"):
        repaired_requests(spec(), Words([" aax"] * 15, list(range(15)), False), surround, "few")


def test_a_prompt_shorter_than_what_the_server_adds_is_refused(kept: PromptCache) -> None:
    with pytest.raises(PromptError, match="ask for at least"):
        made(kept, TOYS["bytelevel-bos"], spec(input_range=(2, 2)))


def test_a_tokenizer_that_splits_otherwise_than_when_probed_is_found_out(
    tmp_path: Path,
) -> None:
    cache = PromptCache(tmp_path)
    made(cache, ToyTokenizer(), spec())
    changed = ToyTokenizer(words=WORDS[:400])
    changed.identity = ToyTokenizer().identity  # type: ignore[method-assign]
    with pytest.raises(PromptError, match="when encoded, not"):
        made(cache, changed, spec(seed=9))


def test_a_share_of_a_large_file_is_encoded_again_with_its_extremes(kept: PromptCache) -> None:
    asked = spec(count=300, warmup=0)
    out = kept.folder / "share.prompts"
    maker(kept, TOYS["bytelevel"], verify="10").make(asked, out)
    file = PromptFile.open(out)
    assert 10 <= file.meta["encoded_again"] <= 12
    maker(kept, TOYS["bytelevel"], verify="all").make(spec(count=299, warmup=0), out)
    assert PromptFile.open(out).meta["encoded_again"] == 299


def test_prompts_of_a_group_share_their_prefix_to_the_token_and_no_more(kept: PromptCache) -> None:
    toy = TOYS["bytelevel-bos"]
    asked = spec(
        count=40, source="shared_prefix", prefix_tokens=60, prefix_groups=3, input_range=(80, 300)
    )
    file = made(kept, toy, asked)
    encoded = toy.encode(texts(file))
    assert [len(ids) for ids in encoded] == file.prompt_tokens.tolist()
    assert len({tuple(ids[:59]) for ids in encoded}) == 3
    assert len({tuple(ids[: 59 + 16]) for ids in encoded}) == len(file)
    with pytest.raises(PromptError, match="less than the shortest, 80"):
        made(kept, toy, spec(source="shared_prefix", prefix_tokens=80, input_range=(80, 90)))


def test_a_session_grows_by_its_messages_and_answers(kept: PromptCache) -> None:
    toy = TOYS["sentencepiece"]
    asked = spec(source="multi_turn", turns=3, wait_s=1.5, input_range=(20, 30))
    file = made(kept, toy, asked, "messages")
    assert file.form == "messages"
    assert file.session is not None
    assert file.turn is not None
    assert file.wait_s is not None
    assert file.turn.tolist() == [0, 1, 2] * 5
    assert file.session.tolist() == [s for s in range(5) for _ in range(3)]
    assert file.wait_s.tolist() == [0.0, 1.5, 1.5] * 5
    own = [len(ids) for ids in toy.encode_plain([toy.render(text) for text in texts(file)])]
    answers = file.output_tokens.tolist()
    third = own[3] + answers[3] + own[4] + answers[4] + own[5]
    assert file.prompt_tokens[3:6].tolist() == [
        own[3], own[3] + answers[3] + own[4], third
    ]  # fmt: skip
    with pytest.raises(PromptError, match="chat"):
        made(kept, toy, asked, "plain")


def trace_file(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """A trace with these rows."""
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_trace_keeps_times_lengths_and_what_was_shared(tmp_path: Path, kept: PromptCache) -> None:
    rows = [
        {"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]},
        {"timestamp": 1500, "input_length": 1300, "output_length": 6, "hash_ids": [1, 2, 4]},
        {"timestamp": 3500, "input_length": 700, "output_length": 7, "hash_ids": [9, 2]},
        {"timestamp": 3500, "input_length": 40, "output_length": 8, "hash_ids": [7]},
    ]
    toy = TOYS["bytelevel-bos"]
    asked = spec(
        source="trace",
        count=4,
        warmup=2,
        trace_speed=2.0,
        trace_path=str(trace_file(tmp_path, rows)),
    )
    file = made(kept, toy, asked)
    assert file.arrival_s is not None
    assert file.arrival_s.tolist() == [0, 0, 0, 0.5, 1.5, 1.5]
    assert file.prompt_tokens[2:].tolist() == [1100, 1300, 700, 40]
    assert file.output_tokens[2:].tolist() == [5, 6, 7, 8]
    encoded = toy.encode(texts(file))
    assert [len(ids) for ids in encoded] == file.prompt_tokens.tolist()

    def alike(a: int, b: int) -> int:
        pairs = zip(encoded[a], encoded[b], strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    assert 1024 <= alike(2, 3) <= 1024 + 8
    assert alike(2, 4) < 16
    assert alike(0, 2) < 16


OK_LINE = '{"timestamp": 5, "input_length": 900, "output_length": 1, "hash_ids": [1, 2]}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"timestamp":', "line 2: .*not a line of JSON"),
        ("[" * 100_000, "line 2: .*not a line of JSON"),
        ("[1]", r"line 2: \[1\]: not a JSON object"),
        ('{"timestamp": 5, "output_length": 1}', "line 2: has no input_length"),
        (OK_LINE.replace("5,", "NaN,"), "line 2: timestamp nan: allowed: milliseconds from 0"),
        (OK_LINE.replace("5,", '"5",'), "line 2: timestamp '5': allowed"),
        (OK_LINE.replace("5,", "4,"), "line 2: timestamp 4: before the last one, 5"),
        (OK_LINE.replace("900", "0"), "line 2: input_length 0: allowed: whole tokens from 1"),
        (OK_LINE.replace("900", "9.5"), "line 2: input_length 9.5: allowed"),
        (OK_LINE.replace("900", "true"), "line 2: input_length True: allowed"),
        (OK_LINE.replace("900", "9" * 12), "line 2: input_length 9{12}: allowed"),
        (OK_LINE.replace("[1, 2]", '"ab"'), "line 2: hash_ids 'ab': allowed: a list"),
        (OK_LINE.replace("[1, 2]", "[1.5]"), r"line 2: hash_ids \[1.5\]: allowed: a list"),
        (OK_LINE.replace("900", "9"), "9 is 1 blocks of 512 tokens; set workload.trace.block_tok"),
        ("", "has 1 requests, the point has 2"),
    ],
)
def test_a_line_of_a_trace_that_is_no_request_is_told_with_what_is_allowed(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{OK_LINE}\n{line}\n")
    with pytest.raises(PromptError, match=said):
        read_trace(path, 2, 512)
    path.write_bytes(OK_LINE.encode() + b"\n\xff\xfe\n")
    with pytest.raises(PromptError, match="not a line of JSON"):
        read_trace(path, 2, 512)


def test_a_file_is_made_once_and_a_torn_one_anew(tmp_path: Path) -> None:
    cache = PromptCache(tmp_path)
    key = spec().key(maker(cache, TOYS["bytelevel"]).identity())
    first = made(cache, TOYS["bytelevel"], spec())
    entry = cache.path(key)
    inode, content = entry.stat().st_ino, entry.read_bytes()
    again = made(cache, TOYS["bytelevel"], spec())
    assert entry.stat().st_ino == inode == again.path.stat().st_ino
    torn = tmp_path / "torn"
    torn.write_bytes(content[: len(content) // 2])
    torn.replace(entry)
    assert texts(made(cache, TOYS["bytelevel"], spec())) == texts(first)
    assert entry.read_bytes() == content


def test_two_at_once_make_a_file_once(tmp_path: Path) -> None:
    made_by: list[int] = []
    inside = threading.Barrier(2)

    def make(path: Path) -> None:
        made_by.append(threading.get_ident())
        path.write_text("whole")

    def ask() -> None:
        inside.wait()
        PromptCache(tmp_path).get("f0", Path.read_text, make)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made_by) == 1


def test_a_cache_that_cannot_be_used_costs_the_keeping_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    made_by = maker(PromptCache(tmp_path / "file" / "kept"), TOYS["bytelevel"])
    for number in range(2):
        out = tmp_path / f"{number}.prompts"
        made_by.make(spec(seed=number), out)
        assert PromptFile.open(out).count == 12
    assert caplog.text.count("not kept") == 1
    assert "Not a directory" in caplog.text


def test_a_file_that_finds_no_room_is_told_by_its_name() -> None:
    pieces = Pieces(form="ids", texts=(b"1",), words=1, leads=1, blocks=1, identity="one")
    with pytest.raises(OSError, match=r"/proc/x\.prompts"):
        save_pieces(Path("/proc/x.prompts"), pieces)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder to another user")
def test_another_users_cache_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".prompts"
    assert own_folder(folder) == folder
    os.chown(folder, 12345, 12345)
    own = own_folder(folder)
    assert own.name == ".prompts-0"
    assert own.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []


def _fill(path: Path) -> None:
    path.write_text("x" * 100)


def test_what_was_used_longest_ago_goes_when_the_cache_is_full(tmp_path: Path) -> None:
    cache = PromptCache(tmp_path, limit_bytes=250)
    for key in ("a0", "b0", "c0"):
        cache.get(key, Path.read_text, _fill)
        cache.path(key).touch()
    assert not cache.path("a0").exists()
    assert cache.path("b0").exists()
    assert cache.path("c0").exists()


def test_the_tokenizers_hash_is_of_its_files_and_not_of_the_weights(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    first = folder_hash(tmp_path)
    (tmp_path / "model.safetensors").write_text("weights")
    (tmp_path / "config.json").write_text("{}")
    assert folder_hash(tmp_path) == first
    (tmp_path / "tokenizer.json").write_text("{} ")
    assert folder_hash(tmp_path) != first
    with pytest.raises(PromptError, match="no tokenizer files"):
        folder_hash(tmp_path / "nothing")


def test_prompts_go_to_vllms_own_client_as_lines(tmp_path: Path, kept: PromptCache) -> None:
    file = made(kept, TOYS["bytelevel"], spec())
    write_lines(file, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["prompt"] for line in lines] == texts(file)[3:]
    assert [line["output_tokens"] for line in lines] == file.output_tokens[3:].tolist()
    ids = kept.folder / "ids.prompts"
    Maker(cache=kept, form="ids", vocab_size=50).make(spec(input_range=(99, 99)), ids)
    with pytest.raises(PromptFileError, match="texts"):
        write_lines(PromptFile.open(ids), tmp_path / "no.jsonl")


def test_a_template_that_alters_the_message_is_refused() -> None:
    toy = ToyTokenizer(template=CHAT)
    toy.render = lambda content: content.lower()  # type: ignore[method-assign]
    with pytest.raises(PromptError, match="alters the message"):
        surround_of(toy, "template")
