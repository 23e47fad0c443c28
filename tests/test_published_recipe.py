"""Our flags against the published recipes': equal, but for differences listed with a reason.

The recipes' command lines are those of NVIDIA/srt-slurm-recipes 8b088c0
(Qwen3.5/GB200/8k1k/vllm/disagg), rendered by srt-slurm v1.0.32 for one rank.
"""

from __future__ import annotations

import json
import shlex

import pytest

from tests.compose import document_of

RECIPE_BOTH = """
--async-scheduling --enable-expert-parallel --generation-config vllm --language-model-only
--mamba-ssm-cache-dtype bfloat16 --no-disable-hybrid-kv-cache-manager --no-enable-prefix-caching
--pipeline-parallel-size 1 --stream-interval 100 --tensor-parallel-size 1
"""
RECIPE = {
    "prefill": RECIPE_BOTH + "--max-num-batched-tokens 16384 --data-parallel-size 2",
    "decode": RECIPE_BOTH + "--data-parallel-size 8",
}
RECIPE_KV = {
    "kv_connector": "NixlConnector",
    "kv_role": "kv_both",
    "kv_load_failure_policy": "fail",
}

OURS_IN_ADDITION = {
    "--kv-cache-dtype": "the recipes leave it to the checkpoint's declaration; explicit on both",
    "--gpu-memory-utilization": "default changed in 0.20.0",
    "--max-num-batched-tokens": "decode: default changed from 8192 to 16384 in 0.28.0",
}
PLUMBING = (
    "--served-model-name",
    "--host",
    "--port",
    "--data-parallel-size-local",
    "--data-parallel-address",
    "--data-parallel-rpc-port",
    "--data-parallel-start-rank",
    "--data-parallel-hybrid-lb",
    "--kv-transfer-config",
)


def flags_of(argv: list[str]) -> dict[str, str]:
    """Flags of a command line with their values."""
    found: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if following.startswith("--") else following
    return found


@pytest.mark.parametrize("prefill", [4, 5, 6, 7, 8])
def test_flags_equal_the_published_recipes_but_for_the_listed_differences(prefill: int) -> None:
    for worker in document_of(f"topology=dep8_prefill{prefill}x2")["workers"]:
        recipe = flags_of(shlex.split(RECIPE[worker["role"]]))
        ours = flags_of(worker["argv"][3:])
        extra = {name: value for name, value in ours.items() if name not in recipe}
        assert {name: ours.get(name) for name in recipe} == recipe
        assert set(extra) <= {*OURS_IN_ADDITION, *PLUMBING}
        assert worker["env"]["VLLM_SSM_CONV_STATE_LAYOUT"] == "DS"
        assert worker["env"]["VLLM_LOGGING_COLOR"] == "0"


def test_the_connector_differs_from_the_recipes_only_in_its_role() -> None:
    roles = {"prefill": "kv_producer", "decode": "kv_consumer"}
    for worker in document_of("topology=dep8_prefill4x2")["workers"]:
        config = json.loads(flags_of(worker["argv"])["--kv-transfer-config"])
        assert config == {**RECIPE_KV, "kv_role": roles[worker["role"]]}


@pytest.mark.parametrize(
    ("release", "concurrency", "size"),
    [
        ("0.27.0", 3072, None),
        ("0.27.0", 4096, "640"),
        ("0.27.0", 5120, "768"),
        ("0.28.0", 5120, None),
        ("0.33.0", 8192, "1152"),
    ],
)
def test_the_capture_size_follows_concurrency_only_where_the_release_needs_it(
    release: str, concurrency: int, size: str | None
) -> None:
    document = document_of(f"engine.release={release}", f"workload.concurrency=[{concurrency}]")
    for worker in document["workers"]:
        expected = size if worker["role"] == "decode" else None
        assert flags_of(worker["argv"]).get("--max-cudagraph-capture-size") == expected


def test_the_load_is_the_articles() -> None:
    points = document_of()["points"]
    assert [point["concurrency"] for point in points] == [
        *(64, 128, 256, 512, 1024, 2048, 3072, 4096, 5120)
    ]
    for point in points:
        assert point["num_prompts"] == 8 * point["concurrency"]
        assert point["warmup_requests"] == point["concurrency"]
        assert point["range"]["input"] == [6553, 8192]
        assert point["range"]["output"] == [819, 1024]
    assert len({point["seed"] for point in points}) == len(points)
