"""Our capacity beside what a real vLLM decided on real H200 GPUs (benchmarks/records/).

Every start in the record gives vLLM's command line, its model's config.json and its log; the bytes
for the cache are given where vLLM measured them. All else must come out of our arithmetic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from launcher.capacity import GIB, MIB, RoleCapacity
from launcher.engines import ENGINES
from launcher.engines.vllm_memory import memory_problems
from launcher.model_files import fill_facts
from launcher.plan import build_plan
from launcher.schema import LaunchConfig, ModelFacts
from tests.compose import config_of

RECORD = Path(__file__).parent.parent / "benchmarks" / "records" / "2026-11-29-h200-capacity"
STARTS = {start["name"]: start for start in json.loads((RECORD / "starts.json").read_text())}
BEGUN = [name for name, start in STARTS.items() if start.get("blocks")]
MEASURED = [name for name in BEGUN if "--kv-cache-memory-bytes" not in STARTS[name]["argv"]]
MEMORY = 150109880320
"""Bytes that CUDA told vLLM on these GPUs; nvidia-smi says 143771 MiB."""


@cache
def log(name: str) -> str:
    """The lines kept of a start's log."""
    return (RECORD / "starts" / f"{name}.log").read_text()


def test_an_idle_gpus_free_memory_is_what_cuda_calls_the_total() -> None:
    rows = re.findall(r", (\d+), 0, (\d+), 0, ", (RECORD / "machine" / "queries.txt").read_text())
    assert rows
    for total, free in rows:
        assert abs(int(free) - MEMORY / MIB) < 1 < int(total) - MEMORY / MIB


@cache
def composed(topology: str) -> LaunchConfig:
    """A configuration to put a start's flags into."""
    made = config_of("cluster=local", "engine=vllm", f"topology={topology}", "workload=smoke")
    made.engine.release = "0.26.0"
    made.cluster.gpu_memory_gib = MEMORY / GIB
    made.model.facts = ModelFacts()
    made.flags.roles = {}
    return made


def flags_of(argv: list[str]) -> dict[str, Any]:
    """A command line of vLLM as our flags, without the model."""
    flags: dict[str, Any] = {}
    for word in argv[2:]:
        if word.startswith("--"):
            name = word.removeprefix("--")
            flags[name.removeprefix("no-")] = not name.startswith("no-")
        else:
            flags[name] = word
    return flags


def config(name: str, topology: str = "dp1_prefill1x1", **more: Any) -> LaunchConfig:
    """The launcher's configuration of one start; the model's facts come from its config.json."""
    start, made = STARTS[name], deepcopy(composed(topology))
    made.model.path = str(RECORD / "models" / start["model"])
    made.model.hybrid = start["model"].startswith("hybrid")
    made.flags.all = flags_of(start["argv"]) | {k.replace("_", "-"): v for k, v in more.items()}
    fill_facts(made)
    return made


def rank(made: LaunchConfig, role: str = "decode") -> RoleCapacity:
    """Our capacity of one rank."""
    capacity = ENGINES["vllm"].capacity(build_plan(made))
    assert capacity is not None
    return next(found for found in capacity.roles if found.role == role)


@cache
def ours(name: str) -> RoleCapacity:
    """Our capacity of a start, with the cache's bytes as vLLM measured them where no flag did."""
    measured = {"kv_cache_memory_bytes": STARTS[name]["available_bytes"][0]}
    return rank(config(name, **(measured if name in MEASURED else {})))


def logged(text: str) -> tuple[str, ...]:
    """Tokens of the cache, the length of a request, and how many of them fit, as vLLM logs."""
    tokens = re.search(r"GPU KV cache size: ([\d,]+) tokens", text)
    times = re.search(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x", text)
    assert tokens
    assert times
    return (tokens[1], *times.groups())


def told(role: RoleCapacity) -> tuple[str, ...]:
    """The same of ours."""
    return (f"{role.kv_cache_tokens:,}", f"{role.max_model_len:,}", f"{role.max_concurrency:.2f}")


@pytest.mark.parametrize("name", BEGUN)
def test_block_size_blocks_and_both_logged_lines_are_vllms(name: str) -> None:
    start, role = STARTS[name], ours(name)
    assert (role.block_tokens, role.blocks) == (start["attention_block_size"], start["blocks"])
    assert told(role) == logged(log(name))


@pytest.mark.parametrize("name", BEGUN)
def test_the_block_is_the_one_vllm_announced_and_its_padding_too(name: str) -> None:
    said = re.search(r"Setting attention block size to (\d+) tokens", log(name))
    padding = re.search(r"Padding mamba page size by ([\d.]+)%", log(name))
    role = ours(name)
    if not STARTS[name]["model"].startswith("hybrid"):
        assert said is None
        return
    assert said
    assert role.block_tokens == int(said[1])
    assert role.page_bytes
    assert role.state_bytes
    layers = sum(g["layers"] for g in STARTS[name]["groups"] if g["kind"] == "MambaSpec")
    state = role.state_bytes / layers
    announced = float(padding[1]) if padding else 0.0
    assert round(100 * (role.page_bytes - state) / state, 2) == announced


@pytest.mark.parametrize("name", BEGUN)
def test_pages_groups_and_default_sequences_are_vllms(name: str) -> None:
    start, role = STARTS[name], ours(name)
    assert {group["page_bytes"] for group in start["groups"]} == {role.page_bytes}
    assert role.page_bytes
    assert role.block_bytes == role.page_bytes * max(g["layers"] for g in start["groups"])
    assert role.max_num_seqs == start["max_num_seqs"]


def problems(name: str) -> list[str]:
    """What our arithmetic refuses in a start, of the decode role."""
    return [text for text in memory_problems(config(name), {}) if text.startswith("decode")]


@pytest.mark.parametrize("name", ["18", "19", "20"])
def test_more_sequences_than_blocks_are_refused_where_vllm_refused_them(name: str) -> None:
    start = STARTS[name]
    words = f"max-num-seqs={start['max_num_seqs']} is more than the {start['blocks']} block ids"
    assert any(words in text for text in problems(name)) == (
        f"exceeds available Mamba cache blocks ({start['blocks']})" in start.get("error", "")
    )
    assert bool(problems(name)) == ("error" in start)


def test_a_length_that_does_not_fit_is_refused_with_the_one_vllm_says_would() -> None:
    said = re.search(r"estimated maximum model length is (\d+)", log("21"))
    assert said
    assert any(f"allowed: max-model-len up to {said[1]}" in text for text in problems("21"))


@pytest.mark.parametrize("name", MEASURED)
def test_the_pool_is_what_utilization_leaves_of_weights_and_what_the_trial_run_took(
    name: str,
) -> None:
    start, memory = STARTS[name], STARTS[name]["memory"]
    made = config(name)
    facts = made.model.facts
    facts.expert_params, facts.expert_bytes_per_param = 0, 1
    facts.other_params, facts.other_bytes_per_param = memory["weights"], 1
    taken = memory["peak_activation_memory"] + memory["non_torch_memory"]
    made.engine.memory_reserve_gib = (taken + memory["graphs_estimate"]) / GIB
    role = rank(made)
    assert role.pool_bytes == pytest.approx(start["available_bytes"][0], abs=1)
    assert role.blocks == start["blocks"]


STATES: Mapping[str, str] = {
    "prefill-decode/prefill0.log": "bfloat16",
    "prefill-decode/decode0.log": "bfloat16",
    "unequal-states/prefill0.log": "float32",
    "unequal-states/decode0.log": "bfloat16",
}


@pytest.mark.parametrize("path", STATES)
def test_workers_of_whole_runs_log_what_we_compute_from_their_number_of_blocks(path: str) -> None:
    text = (RECORD / "launches" / path).read_text()
    registered = re.search(r"logical_num_blocks=(\d+)", text)
    page = re.search(r"block_len_per_layer=\{(\d+)\}", text)
    assert registered
    assert page
    role = rank(
        config(
            "02",
            num_gpu_blocks_override=int(registered[1]),
            mamba_ssm_cache_dtype=STATES[path],
            max_model_len=16384,
        )
    )
    assert told(role) == logged(text)
    assert role.page_bytes == int(page[1])


@pytest.mark.parametrize("path", ["0-c1.json", "1-c8.json"])
def test_a_request_moved_as_many_bytes_as_we_compute(path: str) -> None:
    point = json.loads((RECORD / "launches" / "prefill-decode" / path).read_text())
    made = config("02")
    made.workload.isl, made.workload.osl = point["isl"], point["osl"]
    made.workload.range_ratio = point["range_ratio"]
    moved = rank(made).moved_bytes
    assert moved
    # 4800 to 6000 tokens are 3 blocks of 2128: every request moves the same.
    assert moved.low == moved.high == point["server"]["kv_bytes"] / point["server"]["kv_transfers"]


def test_experts_are_shared_out_over_the_ranks_of_an_endpoint() -> None:
    whole = (RECORD / "launches" / "prefill-decode" / "prefill0.log").read_text()
    shared = (RECORD / "launches" / "expert-parallel" / "aggregated0.log").read_text()
    took = [re.search(r"Model loading took ([\d.]+) GiB", text) for text in (whole, shared)]
    assert took[0]
    assert took[1]
    made = config("02", "dep8_aggregated")
    # 8 layers of 32 experts: gate, up and down, 4096 x 1024 each, in bfloat16.
    made.model.facts.expert_params = 8 * 32 * 3 * 4096 * 1024
    made.model.facts.expert_bytes_per_param = 2
    made.model.facts.other_params, made.model.facts.other_bytes_per_param = 0, 2
    held = []
    for dp in (1, 2):
        made.topology.roles["aggregated"].dp = dp
        weights = rank(made, "aggregated").weights_bytes
        assert weights
        held.append(weights)
    assert (held[0] - held[1]) / GIB == pytest.approx(
        float(took[0][1]) - float(took[1][1]), abs=0.02
    )
