"""The same mistake in other words: spellings, forms and kinds of values that users really write."""

from __future__ import annotations

import sys

import pytest

from launcher.composing import CONF_DIR
from launcher.diagnosis import diagnose, judged, placed
from launcher.known_bad.view import View
from launcher.schema import register
from tests.compose import capacity_of, config_of

KV = "flags.roles.decode.kv-transfer-config"


def problems(*overrides: str) -> list[str]:
    """What the rules say of a command line that composes."""
    return list(judged(config_of(*overrides, "dry_run=true"), sys.executable).problems)


def told(*words: str) -> str:
    """All that is said of a command line, one problem a line."""
    register()
    return "\n".join(diagnose([*words, "dry_run=true"], CONF_DIR, sys.executable))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+flags.all.no-enable-chunked-prefill=true", "+flags.all.enable-chunked-prefill=false"),
        ("+flags.all.disable-chunked-prefill=true", "+flags.all.enable-chunked-prefill=false"),
        ("+flags.all.disable_chunked_prefill=true", "+flags.all.enable-chunked-prefill=false"),
    ],
)
def test_a_flag_by_its_second_name_is_judged_as_by_its_first(one: str, other: str) -> None:
    assert problems(one) == problems(other) != []


@pytest.mark.parametrize("word", ["no-enable-prefix-caching", "disable-prefix-caching"])
def test_a_flag_by_its_second_name_counts_in_the_arithmetic(word: str) -> None:
    base = ("~flags.all.enable-prefix-caching",)
    first = capacity_of(*base, "+flags.all.enable_prefix_caching=false")
    assert capacity_of(*base, f"+flags.all.{word}=true") == first
    assert capacity_of(*base, "+flags.all.enable_prefix_caching=true") != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+flags.all.gpu-memory-utilisation=0.5", ""),
        ("+flags.all.device-memory-utilization=0.5", "flags.all.gpu-memory-utilization=0.5"),
    ],
)
def test_a_second_name_of_a_number_is_the_number_and_a_misspelt_one_is_not(
    one: str, other: str
) -> None:
    base = ("~flags.all.gpu-memory-utilization",)
    if other:
        assert capacity_of(*base, one) == capacity_of(other)
    else:
        assert any("did you mean gpu-memory-utilization" in text for text in problems(*base, one))


@pytest.mark.parametrize(
    "pair",
    [
        ("+flags.roles.prefill.block-size=64", "+flags.roles.decode.block-size='64'"),
        ("+flags.roles.prefill.dtype=half", "+flags.roles.decode.dtype=float16"),
        ("+flags.roles.prefill.dtype=auto", "+flags.roles.decode.dtype=bfloat16"),
        ("+flags.roles.prefill.block-size=64", "+topology.roles.decode.flags.block_size=64"),
    ],
)
def test_equal_settings_in_other_words_are_no_difference(pair: tuple[str, str]) -> None:
    assert not [text for text in problems(*pair) if "prefill has" in text]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("'^lo,docker0'", "Gloo takes device names only"),
        ("'=eth0'", "Gloo takes device names only"),
        ("'eth0, eth1'", "Gloo takes device names only"),
        ("lo", "the loopback device"),
        ("'lo,eth0'", "the loopback device"),
    ],
)
def test_a_gloo_device_that_cannot_serve_is_refused(value: str, words: str) -> None:
    found = problems(f"+cluster.env.GLOO_SOCKET_IFNAME={value}")
    assert any(words in text for text in found), found


@pytest.mark.parametrize("value", ["enP5p9s0", "'eth0,eth1'", "bond0.100", "br-lo1"])
def test_a_gloo_device_by_name_is_taken(value: str) -> None:
    assert problems(f"+cluster.env.GLOO_SOCKET_IFNAME={value}") == []


@pytest.mark.parametrize("value", ["'^lo,docker'", "enP5p9s0", "'=ibp3s0'", "'ib,en'"])
def test_nccls_own_forms_are_taken(value: str) -> None:
    assert problems(f"+cluster.env.NCCL_SOCKET_IFNAME={value}") == []


@pytest.mark.parametrize("value", ["lo", "'=lo'", "'lo,docker0'"])
def test_nccl_on_the_loopback_device_is_refused(value: str) -> None:
    assert any("loopback" in text for text in problems(f"+cluster.env.NCCL_SOCKET_IFNAME={value}"))


def test_an_empty_gloo_device_is_as_good_as_none() -> None:
    config = config_of("+cluster.env.GLOO_SOCKET_IFNAME=''", "dry_run=true")
    assert any("gloo-device-unset" in text for text in judged(config, "python").warnings)


@pytest.mark.parametrize("value", ["3", "'3'", "true", "NixlConnector", "'[1]'", "'\"x\"'"])
def test_a_kv_transfer_config_of_another_form_is_told_once(value: str) -> None:
    found = [text for text in problems(f"{KV}={value}") if text.startswith(KV)]
    assert len(found) == 1, found
    assert "allowed: a mapping (JSON)" in found[0]


def test_a_plus_that_is_missing_is_asked_for_and_then_taken() -> None:
    word = f"{KV}={{kv_buffer_device:cuda}}"
    assert f"write +{KV}=" in told(word)
    assert problems(f"+{word}") == []


@pytest.mark.parametrize(
    ("word", "allowed"),
    [
        (f"{KV}=[a]", "allowed: a mapping"),
        ("flags.roles.decode=3", "allowed: a mapping"),
        ("+cluster.env.A=[1,2]", "allowed: text"),
        ("+flags.env.A={b:c}", "allowed: text"),
        ("+flags.env.A=null", "allowed: text"),
        ("workload.concurrency=[[4,8]]", "allowed: a list of whole numbers"),
        ("flags.unchecked=[[a]]", "allowed: a list of texts"),
        ("cluster.setup=[{a:b}]", "allowed: a list of texts"),
        ("cluster.segment='²'", "allowed: auto, off, or a number of nodes"),
        ("cluster.segment='١٨'", "allowed: auto, off, or a number of nodes"),
        ("+topology.roles.decod.dp=2", "the topology has no role decod, only prefill, decode"),
        ("=foo", "no key before the ="),
        ("model.path=", "model.path is empty"),
        ("model.facts.head_dim=0", "allowed: 1 to 100000000"),
        ("model.facts.expert_params=1e400", "model.facts.expert_params=inf: allowed: 0 to"),
        ("+flags.all.O3=true", "write optimization-level=3"),
        ("flags.all.gpu-memory-utilization=92", "above 0 and up to 1"),
        ("flags.all.gpu-memory-utilization='90%'", "allowed: a number"),
        ("+flags.all.max_num_seqs=0", "allowed: 1 or more"),
        ("+flags.all.block-size=-16", "allowed: 1 or more"),
        ("+flags.all.compilation-config={cudagraph_mode:FULLL}", "did you mean FULL?"),
        ("+flags.all.speculative-config={num_speculative_tokens:0}", "allowed: 1 or more"),
    ],
)
def test_a_value_that_cannot_be_is_one_problem_in_the_launchers_words(
    word: str, allowed: str
) -> None:
    found = told(word)
    assert allowed in found
    assert len(found.splitlines()) == 1, found
    for library in ("full_key", "object_type", "DictConfig", "Traceback", "invalid literal"):
        assert library not in found


@pytest.mark.parametrize(
    "word",
    [
        "+flags.all.compilation-config={cudagraph_mode:full_decode_only,mode:3}",
        "+flags.all.compilation-config={cudagraph_mode:FULL_AND_PIECEWISE,mode:VLLM_COMPILE}",
        "+flags.all.optimization-level=3",
        "+flags.all.max-num-seqs='512'",
        "+flags.all.all2all-backend=flashinfer_nvlink_one_sided",
        "+flags.all.hf-overrides={text_config:{num_hidden_layers:8}}",
        "+flags.env.UCX_TLS='cuda_copy,cuda_ipc,tcp'",
        "+flags.all.kv-transfer-config.kv_connector_extra_config={backends:[UCX,GDS]}",
        "+flags.all.no-enable-log-requests=true",
    ],
)
def test_what_recipes_use_is_no_mistake(word: str) -> None:
    assert problems(word) == []


def test_the_place_of_a_value_is_the_override_that_wrote_it_and_else_the_file_that_has_it() -> None:
    labels = {"flags": "article", "workload": "random_8k1k"}
    word = "+flags.all.compilation-config={pass_config:{x:1}}"
    [override, file, nowhere] = placed(
        [
            "flags.all.compilation-config.pass_config.x=1: no",
            "flags.all.stream-interval=100: no",
            "flags.all.max-num-seqs=1: no",
        ],
        [word],
        labels,
        CONF_DIR,
    )
    assert override.endswith(f"[override {word}]")
    assert file.endswith("[conf/flags/article.yaml]")
    assert nowhere == "flags.all.max-num-seqs=1: no"


def test_a_key_of_a_mapping_is_placed_in_the_layer_that_wrote_it() -> None:
    role = View(config_of("+flags.roles.decode.kv-transfer-config.engine_id=x")).roles["decode"]
    assert role.at("kv-transfer-config.engine_id", "x").startswith("flags.roles.decode.")
    assert role.at("kv-transfer-config.kv_connector", "y").startswith("flags.all.")
