"""Capacity by arithmetic: the published shapes, every release, and what the checks say of them.

Numbers of the 397B model are worked out by hand from its dimensions (comments), not by the code.
"""

from __future__ import annotations

import pytest

from launcher.capacity import GIB, MIB, RoleCapacity
from launcher.engines import ENGINES
from launcher.engines.vllm_memory.settings import whole
from launcher.engines.vllm_memory.unknown import UnknownError
from launcher.plan import build_plan
from launcher.validate import check_config
from tests.capacity_page import PAGE, page_with
from tests.compose import capacity_of, config_of, text_of

RELEASES = ("0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
PREFILL, DECODE = "prefill", "decode"


def role_of(role: str, *overrides: str) -> RoleCapacity:
    """One role's capacity of a command line."""
    capacity = capacity_of(*overrides)
    assert capacity is not None
    return next(found for found in capacity.roles if found.role == role)


def warnings_of(*overrides: str) -> list[str]:
    """What the engine advises about a command line."""
    return list(ENGINES["vllm"].advice(config_of(*overrides)))


def problems_of(*overrides: str) -> list[str]:
    """What the engine refuses of a command line."""
    return list(ENGINES["vllm"].problems(config_of(*overrides)))


# State: conv 12288 x 3 x 2 B = 73,728; recurrent 64 x 128 x 128 x 2 or 4 B. KV of a token and
# layer: 2 heads x 256 x 2 x 1 or 2 B. Block: the least multiple of 16 tokens holding the state.
@pytest.mark.parametrize(
    ("kv", "state", "block", "mib", "low", "high"),
    [
        ("fp8", "bfloat16", 2128, 31.17, 7, 8),
        ("fp8", "float32", 4176, 61.17, 5, 6),
        ("bfloat16", "bfloat16", 1072, 31.41, 10, 12),
        ("bfloat16", "float32", 2096, 61.41, 7, 8),
    ],
)
def test_blocks_of_the_published_model_follow_its_dimensions(
    kv: str, state: str, block: int, mib: float, low: int, high: int
) -> None:
    config = config_of(f"flags.all.kv-cache-dtype={kv}", f"flags.all.mamba-ssm-cache-dtype={state}")
    for release in RELEASES:
        config.engine.release = release
        capacity = ENGINES["vllm"].capacity(build_plan(config))
        assert capacity is not None
        role = next(found for found in capacity.roles if found.role == DECODE)
        assert role.block_tokens == block
        assert role.block_bytes is not None
        assert round(role.block_bytes / MIB, 2) == mib
        ids = role.blocks_per_request
        assert ids is not None
        assert (ids.low, ids.high) == (low, high)
        assert low <= ids.mean <= high


def test_weights_are_experts_over_ranks_and_the_rest_on_each() -> None:
    # 386.55e9 x 0.5625 B / ranks + 9.80e9 x 2 B.
    for role, ranks in ((PREFILL, 2), (DECODE, 8)):
        expected = 386.55e9 * 0.5625 / ranks + 9.80e9 * 2
        assert role_of(role).weights_bytes == pytest.approx(expected, rel=1e-9)


def test_experts_that_do_not_divide_and_redundant_ones_are_rounded_up() -> None:
    uneven = role_of(DECODE, "topology.roles.decode.dp=6")
    expected = 386.55e9 * 0.5625 * 86 / 512 + 9.80e9 * 2  # ceil(512 / 6) = 86
    assert uneven.weights_bytes == pytest.approx(expected, rel=1e-9)
    sliced = role_of(
        DECODE, "topology.roles.decode.dp=6", "topology.roles.decode.expert_parallel=false"
    )
    assert sliced.weights_bytes == pytest.approx(386.55e9 * 0.5625 / 6 + 9.80e9 * 2, rel=1e-9)
    more = role_of(
        DECODE,
        "+flags.roles.decode.enable-eplb=true",
        "+flags.roles.decode.eplb-config.num_redundant_experts=32",
    )
    expected = 386.55e9 * 0.5625 * 68 / 512 + 9.80e9 * 2  # (512 + 32) / 8
    assert more.weights_bytes == pytest.approx(expected, rel=1e-9)


def test_the_pool_is_what_utilization_weights_and_reserve_leave() -> None:
    role = role_of(DECODE, "engine.memory_reserve_gib=6")
    assert role.pool_bytes is not None
    assert role.weights_bytes is not None
    left = 184 * GIB * 0.92 - role.weights_bytes - 6 * GIB
    assert abs(role.pool_bytes - left) <= 1
    assert role.blocks == role.pool_bytes // (15 * 2128 * 1024)


def test_a_pool_given_by_a_flag_needs_no_memory_fact() -> None:
    by_bytes = role_of(
        DECODE, "cluster.gpu_memory_gib=null", "+flags.all.kv-cache-memory-bytes=10G"
    )
    assert by_bytes.blocks == 10 * 2**30 // (15 * 2128 * 1024)
    assert by_bytes.pool_from == "kv-cache-memory-bytes"
    by_blocks = role_of(DECODE, "+flags.all.num-gpu-blocks-override=777")
    assert by_blocks.blocks == 777


def test_four_thousand_run_at_once_and_five_thousand_do_not() -> None:
    warnings = warnings_of("topology=dep8_prefill6x2")
    assert len(warnings) == 1
    assert "workload.concurrency=5120 asks 640 requests of each decode rank" in warnings[0]
    for reserve in (6, 8, 10):
        found = warnings_of(f"engine.memory_reserve_gib={reserve}", "workload.concurrency=[4096]")
        assert not found


def test_a_default_of_max_num_seqs_that_binds_is_named_and_a_flag_is_said_once() -> None:
    # 60 GiB GPUs default to 256 sequences a rank; a small pool by flag keeps blocks plenty.
    small = ("cluster.gpu_memory_gib=60", "+flags.all.kv-cache-memory-bytes=200G")
    (told,) = [t for t in warnings_of(*small, "workload.concurrency=[4096]") if "run at once" in t]
    assert "max-num-seqs=256, the default; 2048 on 8 ranks" in told
    flag = ("+flags.roles.decode.max-num-seqs=256", "workload.concurrency=[4096]")
    said = check_config(config_of(*flag))
    assert len([text for text in said if "max-num-seqs" in text]) == 1


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        # fp32 states: at most (184 x 0.92 - 119.504) GiB / 61.172 MiB = 833 ids, default 1024 seqs.
        (["flags.all.mamba-ssm-cache-dtype=float32"], "max-num-seqs=1024 is more than the 833"),
        (["topology.roles.prefill.dp=1"], "leave no memory for KV blocks"),
        (["cluster.gpu_memory_gib=129"], "leave no memory for KV blocks"),
        (["+flags.all.num-gpu-blocks-override=100"], "needs 128 block ids"),
        (["+flags.all.num-gpu-blocks-override=100"], "max-num-seqs=1024 is more than the 100"),
        (["+flags.all.max-model-len=8192"], "longest request has 8192 prompt + 1024 answer"),
        (["+flags.all.max-model-len=300000"], "allowed: up to 262144"),
        (["workload.isl=262144"], "262144 prompt + 1024 answer tokens = 263168"),
        (
            ["+flags.all.max-model-len=9216", "workload.range_definition=vllm"],
            "14746 prompt + 1844 answer tokens = 16590",
        ),
        (["topology.roles.decode.tp=3"], "tp=3: the model's 32 attention_heads do not divide"),
        (["topology.roles.decode.tp=3"], "tp=3: the model's 64 gdn_value_heads do not divide"),
    ],
)
def test_what_vllm_would_refuse_is_an_error_with_its_numbers(
    overrides: list[str], said: str
) -> None:
    assert any(said in problem for problem in problems_of(*overrides)), problems_of(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        # The same shortage, without the full graphs that make vLLM refuse it.
        ["flags.all.mamba-ssm-cache-dtype=float32", "+flags.all.enforce-eager=true"],
        [
            "flags.all.mamba-ssm-cache-dtype=float32",
            "+flags.all.compilation-config={cudagraph_mode: PIECEWISE}",
        ],
        ["flags.all.mamba-ssm-cache-dtype=float32", "+flags.roles.prefill.max-num-seqs=512"],
        ["+flags.all.max-model-len=9216"],
        ["+flags.all.max-model-len=300000", "+flags.env.VLLM_ALLOW_LONG_MAX_MODEL_LEN='1'"],
    ],
)
def test_what_vllm_would_take_is_no_error(overrides: list[str]) -> None:
    assert not problems_of(*overrides)


def test_a_start_that_only_the_reserve_forbids_is_a_warning() -> None:
    # 1024 ids x 31.17 MiB fit into 184 x 0.92 - 119.5 GiB, but not when 20 GiB are kept.
    command = ["engine.memory_reserve_gib=20", "workload.concurrency=[64]"]
    assert not problems_of(*command)
    assert any("max-num-seqs=1024 is more than the 9" in text for text in warnings_of(*command))


def test_unequal_blocks_of_prefill_and_decode_are_told() -> None:
    # tp=2 halves the state and the KV of a token; tp=4 halves the state again, not the KV.
    same = warnings_of("topology.roles.prefill.tp=2", "workload.concurrency=[64]")
    assert not any("unequal" in text for text in same)
    told = warnings_of(
        "topology.roles.prefill.tp=4", "topology.roles.prefill.dp=1", "workload.concurrency=[64]"
    )
    assert any("prefill 1072, decode 2128 tokens" in text for text in told)


def test_prefix_caching_takes_more_ids_and_its_default_is_the_releases() -> None:
    on, off = "flags.all.enable-prefix-caching=true", "flags.all.enable-prefix-caching=false"
    assert _low(on, "engine.release=0.32.0") == _low(off, "engine.release=0.32.0") + 3
    # 0.33.0's FlashInfer kernel keeps one more state a group, and blocks of 64 tokens.
    assert _low(on, "engine.release=0.33.0") == _low(off, "engine.release=0.33.0") + 6
    default = "~flags.all.enable-prefix-caching"
    assert _low(default, "engine.release=0.27.1") == _low(off, "engine.release=0.27.1")
    assert _low(default, "engine.release=0.28.0") == _low(on, "engine.release=0.28.0")
    triton = "+flags.all.gdn-prefill-backend=triton"
    assert _low(on, triton, "engine.release=0.33.0") == _low(on, "engine.release=0.32.0")
    assert role_of(DECODE, on, "engine.release=0.33.0").block_tokens == 2176


def _low(*overrides: str) -> float:
    ids = role_of(DECODE, *overrides).blocks_per_request
    assert ids is not None
    return ids.low


def test_a_larger_block_size_is_the_step_of_alignment() -> None:
    assert role_of(DECODE, "+flags.all.block-size=128").block_tokens == 2176
    assert role_of(DECODE, "+flags.all.block-size=4096").block_tokens == 4096


def test_bytes_moved_are_whole_blocks_and_the_states() -> None:
    moved = role_of(PREFILL).moved_bytes
    assert moved is not None
    # 6553..8192 tokens are 4 blocks of 2128: 4 x 15 layers x page, and 45 states.
    assert moved.high == 4 * 15 * 2128 * 1024 + 45 * (73728 + 2 * 64 * 128 * 128)
    assert moved.low == moved.high


def test_an_average_request_is_between_the_shortest_and_the_longest() -> None:
    ids = role_of(DECODE).blocks_per_request
    assert ids is not None
    # By counting every prompt, answer and step: 7 ids up to 8512 tokens, 8 beyond.
    steps = over = 0
    for prompt in range(6553, 8193):
        for answer in range(819, 1025):
            steps += answer
            over += max(0, prompt + answer - 8512)
    assert ids.mean == pytest.approx(7 + over / steps, rel=1e-9)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model.facts.kv_heads=null", "model.facts.kv_heads"),
        ("model.facts.dtype=null", "model.facts.dtype"),
        ("cluster.gpu_memory_gib=null", "cluster.gpu_memory_gib"),
        ("model.facts.other_params=null", "model.facts.other_params"),
        ("flags.all.kv-cache-dtype=null", "model.facts.kv_cache_dtype"),
        ("flags.all.kv-cache-dtype=turboquant_k8v4", "its packing is not computed"),
        ("+flags.all.decode-context-parallel-size=2", "context parallelism"),
        ("+flags.all.kv-cache-memory-bytes=lots", "--kv-cache-memory-bytes: 'lots' is no number"),
    ],
)
def test_what_is_not_known_is_named_and_nothing_is_guessed(override: str, named: str) -> None:
    role = role_of(DECODE, override)
    assert role.blocks is None
    assert role.running is None
    assert any(named in text for text in role.unknown)
    assert f"unknown for decode: {role.unknown[0]}" in text_of(override)


def test_auto_states_and_kv_follow_the_models_facts() -> None:
    auto = "flags.all.mamba-ssm-cache-dtype=auto"
    assert role_of(DECODE, auto).state_dtypes == ("bfloat16", "float32")
    declared = ("flags.all.kv-cache-dtype=auto", "model.facts.kv_cache_dtype=fp8_e4m3")
    assert role_of(DECODE, *declared).kv_dtype == "fp8_e4m3"
    silent = ("flags.all.kv-cache-dtype=auto", "model.facts.kv_cache_dtype=auto")
    assert role_of(DECODE, *silent).kv_dtype == "bfloat16"


def test_speculative_layers_and_states_are_counted() -> None:
    draft = "+flags.all.speculative-config={method: mtp, num_speculative_tokens: 2}"
    role = role_of(DECODE, draft, "+flags.all.kv-cache-memory-bytes=100G")
    assert role.kv_bytes_per_token == 16 * 1024  # 15 layers and MTP's own
    # conv 12288 x (3 + 2) x 2 B; every state group holds 1 + 2 ids.
    assert role.state_bytes == 45 * (12288 * 5 * 2 + 2 * 64 * 128 * 128)
    assert role.blocks_per_request is not None
    assert role.blocks_per_request.low == 4 + 3 * 3
    assert any("weights of speculative-config" in text for text in role.unknown)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8192", 8192), (8192, 8192), ("32k", 32000), ("32K", 32768), ("1.5m", 1500000)],
)
def test_counts_are_read_as_the_engine_reads_them(text: object, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["many", "1e3x", True, None, "-5", "0x10"])
def test_other_text_is_no_count(text: object) -> None:
    with pytest.raises(UnknownError):
        whole(text)


def test_the_rehearsal_engine_has_no_capacity() -> None:
    assert capacity_of("engine=rehearsal") is None
    assert "capacity (" not in text_of("engine=rehearsal")


def test_the_page_of_the_published_shapes_is_what_is_computed() -> None:
    text = PAGE.read_text()
    assert page_with(text) == text, "run: python -m tests.capacity_page"


# What vLLM 0.33.0's own functions return for these shapes and 126,368,747,520 bytes
# (tests/capacity_sources.py; see docs/capacity.md): block, blocks, KV cache size, concurrency.
@pytest.mark.parametrize(
    ("overrides", "theirs"),
    [
        ((), (2128, 3866, 7979911, "30.44")),
        (
            (
                *("flags.all.kv-cache-dtype=bfloat16", "+flags.all.max-model-len=9216"),
                *(
                    "flags.all.mamba-ssm-cache-dtype=float32",
                    "+flags.all.gdn-prefill-backend=triton",
                ),
                "flags.all.enable-prefix-caching=true",
            ),
            (2096, 1962, 1643799, "178.36"),
        ),
    ],
)
def test_gpu_shapes_give_what_the_releases_own_functions_return(
    overrides: tuple[str, ...], theirs: tuple[int, int, int, str]
) -> None:
    role = role_of(DECODE, "+flags.all.kv-cache-memory-bytes=126368747520", *overrides)
    ours = (role.block_tokens, role.blocks, role.kv_cache_tokens, f"{role.max_concurrency:.2f}")
    assert ours == theirs
