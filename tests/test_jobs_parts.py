"""Single parts of the job: node lists, environment, tokens, run.json, results, comparisons."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.addresses import node_address
from jobs.allocation import Node, cpus_per_node, expand_nodelist
from jobs.counters import moved, server_counters
from jobs.engines.dialect import Answer, EngineCounters
from jobs.environment import step_environment
from jobs.errors import JobError
from jobs.guard import follow
from jobs.pairs import rounds
from jobs.records import RecordError
from jobs.result_file import error_counts, failed_requests, latency, read_result
from jobs.run_file import read_run
from jobs.state_check import (
    check_control,
    check_exact,
    check_first,
    control_power,
    judge_band,
    logit_ulp,
)
from jobs.tokens import fill, token_values
from tests.fakes_jobs import pair_run

NODES = [Node(index=i, name=f"gb{i}", address=f"10.0.0.{i}") for i in range(12)]
VALUES = token_values(NODES, Path("/runs/r1"), "r1")


def answering(text: str) -> Any:
    async def asker(command: Sequence[str]) -> str:
        return text

    return asker


@pytest.mark.parametrize(
    ("nodelist", "answer", "names"),
    [
        ("gb200-[01-03,07]", "gb200-01\ngb200-02\ngb200-03\ngb200-07\n", 4),
        ("n[1-3],n[2,4]", "n1\nn2\nn3\nn2\nn4\n", 4),
        ("watch-cn13", "watch-cn13\n", 1),
    ],
)
def test_nodes_are_those_of_scontrol_each_once_in_order(
    nodelist: str, answer: str, names: int
) -> None:
    found = asyncio.run(expand_nodelist(nodelist, answering(answer)))
    assert found == list(dict.fromkeys(answer.split()))
    assert len(found) == names


@pytest.mark.parametrize(
    ("nodelist", "answer"),
    [
        ("(null)", "(null)"),
        ("None assigned", "None\nassigned"),
        ("", ""),
        ("gb200-[01-03", "gb200-]"),
        ("n[]", ""),
        ("n[3-1]", ""),
        ("gb200-[01-03", "gb200-01\ngb200-02\ngb200-03"),
    ],
)
def test_what_is_no_node_list_is_an_error_naming_the_text(nodelist: str, answer: str) -> None:
    with pytest.raises(JobError, match="SLURM_JOB_NODELIST"):
        asyncio.run(expand_nodelist(nodelist, answering(answer)))


def test_an_address_is_one_nodeaddr_and_nothing_else() -> None:
    text = "NodeName=a Arch=arm64\n   NodeAddr=10.60.27.0 NodeHostName=a Version=24.11\n"
    assert asyncio.run(node_address("a", answering(text))) == "10.60.27.0"
    for wrong in ("", "slurm_load_node error", text + "NodeAddr=10.60.27.1\n"):
        with pytest.raises(JobError, match="node a"):
            asyncio.run(node_address("a", answering(wrong)))


def test_cpu_counts_are_one_number_a_node() -> None:
    assert cpus_per_node("72(x2),36", 3) == [72, 72, 36]
    assert cpus_per_node("72(x2)", 3) is None
    assert cpus_per_node("many", 1) is None


def test_steps_get_the_drivers_environment_without_slurms_options() -> None:
    environ = {
        "PATH": "/usr/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "41",
        "SLURM_JOB_NODELIST": "gb200-99",
        "SLURM_CPUS_PER_TASK": "4",
        "SLURM_TRES_PER_TASK": "cpu=4",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_NTASKS": "1",
        "SLURM_MEM_PER_NODE": "32768",
        "SLURM_GPUS_ON_NODE": "1",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURM_GET_USER_ENV": "1",
        "SBATCH_EXPORT": "NONE",
        "PMIX_RANK": "0",
        "VLLM_CACHE_ROOT": "/local/cache",
    }
    found = step_environment(environ, "the-key", "the-mark")
    kept = {"PATH", "SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "VLLM_CACHE_ROOT"}
    assert kept == set(found) & set(environ)
    assert found["VLLM_API_KEY"] == found["OPENAI_API_KEY"] == "the-key"


def test_steps_are_not_taken_for_the_rank_that_launched_them() -> None:
    rank = {
        *("OMPI_COMM_WORLD_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"),
        *("VLLM_DP_RANK", "VLLM_DP_SIZE", "VLLM_DP_MASTER_IP", "TORCHELASTIC_RUN_ID"),
        *("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_HOST_IP", "VLLM_PORT"),
    }
    kept = {"VLLM_LOGGING_LEVEL", "NCCL_DEBUG", "MASTER_KEY_FILE"}
    found = step_environment(dict.fromkeys(rank | kept, "1"), "the-key", "the-mark")
    assert kept == set(found) & (rank | kept)


def test_only_tokens_are_replaced_and_json_braces_stay() -> None:
    text = '{"a": {"host": "{node11.address}"}, "n": "{node1.name}"} {run_dir} {other} {node1}'
    expected = '{"a": {"host": "10.0.0.11"}, "n": "gb1"} /runs/r1 {other} {node1}'
    assert fill(text, VALUES) == expected
    with pytest.raises(JobError, match="node12"):
        fill("{node12.address}", VALUES)


def write(folder: Path, document: Any) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    return path


def test_run_json_is_read_into_types(tmp_path: Path) -> None:
    run = read_run(write(tmp_path, pair_run(decode_dp=2)))
    decode = run.plan.with_role("decode")[0]
    assert len(decode.side_channels) == 2
    assert run.plan.ranks_behind(decode) == 2
    assert run.plan.points[0].range.input == [100, 120]


def test_headless_followers_count_as_ranks_behind_their_leader(tmp_path: Path) -> None:
    document = pair_run(decode_dp=4)
    follower = copy.deepcopy(document["plan"]["workers"][1])
    document["plan"]["workers"][1]["dp_ranks"] = [0, 1]
    follower |= {"name": "decode0.n1", "url": None, "dp_ranks": [2, 3], "leader": False}
    document["plan"]["workers"].append(follower)
    plan = read_run(write(tmp_path, document)).plan
    assert [plan.ranks_behind(worker) for worker in plan.workers] == [1, 4, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"executor": "cloud"}, "plan.executor is 'cloud': allowed are slurm, local"),
        ({"workers": []}, "plan.workers is empty"),
        ({"nodes": 1}, "decode0: node 1 is not one of 0..0"),
        ({"served_model": 5}, "served_model: expected str, found 5"),
        ({"points": [{"index": 0}]}, r"points\[0\]: field 'name' is missing"),
    ],
)
def test_a_wrong_run_json_names_the_field(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    document = pair_run()
    document["plan"] |= change
    with pytest.raises(RecordError, match=words):
        read_run(write(tmp_path, document))


def test_every_pair_comes_once_and_no_rank_twice_in_a_round() -> None:
    for prefill, decode in ((16, 8), (2, 3), (1, 1), (3, 3)):
        turns = list(rounds(range(prefill), range(decode)))
        pairs = [pair for turn in turns for pair in turn]
        assert len(pairs) == len(set(pairs)) == prefill * decode
        for turn in turns:
            assert len({p for p, _ in turn}) == len({d for _, d in turn}) == len(turn)


def result(folder: Path, **data: Any) -> Path:
    path = folder / "0-c4.json"
    path.write_text(json.dumps(data))
    return path


def test_a_clients_result_is_read_under_old_names_too(tmp_path: Path) -> None:
    path = result(tmp_path, duration=2.0, completed=628, total_input=7, total_output=9)
    data = read_result(path)
    assert (data["total_input_tokens"], data["total_output_tokens"]) == (7, 9)
    assert failed_requests(data, 640) == 12
    assert failed_requests(data | {"failed": 3}, 640) == 3


def test_percentiles_listed_in_pairs_are_read_too(tmp_path: Path) -> None:
    totals = {"duration": 2.0, "completed": 1, "total_input_tokens": 7, "total_output_tokens": 9}
    path = result(tmp_path, **totals, percentiles_ttft_ms=[[50, 90.5], [99, 151]])
    assert latency(read_result(path), "ttft").p99 == 151


def test_a_result_without_totals_is_an_error_naming_them(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="total_output_tokens"):
        read_result(result(tmp_path, duration=2.0, completed=1, total_input_tokens=7))
    with pytest.raises(JobError, match="without writing"):
        read_result(tmp_path / "none.json")


def test_what_was_not_measured_is_missing_and_not_0() -> None:
    data = {"mean_ttft_ms": 0.0, "p99_ttft_ms": 0.0, "mean_tpot_ms": 5.0, "p99_tpot_ms": 9.0}
    assert latency(data, "ttft").mean is None
    assert latency(data, "ttft").p99 is None
    tpot = latency(data, "tpot")
    assert (tpot.mean, tpot.median, tpot.p99) == (5.0, None, 9.0)


def test_errors_are_counted_by_kind() -> None:
    assert error_counts({"error_counts": {"http_500": 2}}) == {"http_500": 2}
    texts = ["", "Traceback\nTimeoutError", "Traceback\nTimeoutError", None]
    assert error_counts({"errors": texts}) == {"TimeoutError": 2}


def test_counters_move_and_a_worker_that_did_not_answer_leaves_the_sums_out(
    tmp_path: Path,
) -> None:
    workers = read_run(write(tmp_path, pair_run())).plan.workers
    before = {
        "prefill0": EngineCounters(prompt_tokens=10, kv_expired=1),
        "decode0": EngineCounters(external_tokens=5),
    }
    after = {
        "prefill0": EngineCounters(prompt_tokens=110, kv_expired=1),
        "decode0": EngineCounters(external_tokens=104, kv_bytes=8),
    }
    found = server_counters(workers, before, after)
    assert (found.prefill_prompt_tokens, found.decode_external_tokens) == (100, 99)
    assert (found.kv_expired, found.kv_bytes, found.preemptions) == (0, 8, None)
    del after["decode0"]
    assert server_counters(workers, before, after).prefill_prompt_tokens is None
    assert moved(EngineCounters(), EngineCounters(kv_failed=1)).kv_failed == 1


def answer(tokens: list[int], delta: float = 0.0) -> Answer:
    tops = [{str(t): -0.1 + delta, str(t + 1): -1.0, str(t + 2): -2.0} for t in tokens]
    return Answer(token_ids=tokens, tops=tops, transfer=None)


def test_the_exact_form_wants_every_later_token_and_logprob_equal() -> None:
    reference = answer([1, 2, 3, 4])
    assert check_exact(reference, answer([2, 3, 4]))["passed"]
    assert not check_exact(reference, answer([2, 9, 4]))["passed"]
    assert not check_exact(reference, answer([2, 3]))["passed"]
    assert not check_exact(reference, answer([2, 3, 4], delta=0.03))["passed"]


def test_an_exact_tie_counts_as_equal() -> None:
    tied = {"2": -0.5, "7": -0.5, "9": -3.0}
    reference = Answer(token_ids=[1, 2, 3], tops=[{}, tied, {"3": 0.0}], transfer=None)
    other = Answer(token_ids=[7, 8], tops=[tied, {"8": 0.0}], transfer=None)
    found = check_exact(reference, other)
    assert found["tie"]
    assert found["passed"]


def test_a_control_detects_what_the_form_in_use_would_have_seen() -> None:
    right = {str(i): -float(i) for i in range(20)}
    foreign = {str(i): -float(i) for i in range(100, 120)}
    alike = {str(i): -float(i) for i in range(10, 30)}
    for exact in (True, False):
        assert check_control(right, foreign, exact)["detects"]
        assert not check_control(right, right, exact)["detects"]
    assert check_control(right, alike, exact=True)["detects"]
    assert not check_control(right, alike, exact=False)["detects"]


def test_one_missed_control_voids_the_exact_form_and_one_in_ten_the_band() -> None:
    def prompts(missed: int) -> list[dict[str, Any]]:
        return [{"control": {"detects": number >= missed}} for number in range(10)]

    assert control_power(prompts(0), exact=True)
    assert not control_power(prompts(1), exact=True)
    assert control_power(prompts(1), exact=False)
    assert not control_power(prompts(2), exact=False)


def test_the_band_is_measured_in_steps_of_the_logits() -> None:
    top = {str(i): -0.0625 * i for i in range(20)}
    assert logit_ulp([top]) == 0.0625
    near = {key: value - 0.0625 for key, value in top.items()}
    far = {key: value - 1.0 for key, value in top.items()}
    one = Answer(token_ids=[1], tops=[top], transfer=None)

    def checked(other: dict[str, float]) -> dict[str, Any]:
        return check_first(one, Answer(token_ids=[1], tops=[other], transfer=None))

    assert judge_band([checked(near)] * 10, 0.0625)[0]
    assert judge_band([checked(near)] * 9 + [checked(far)], 0.0625)[0]
    assert not judge_band([checked(near)] * 8 + [checked(far)] * 2, 0.0625)[0]


def test_the_guard_remembers_who_is_left() -> None:
    assert follow(["mark m-1\n", "+10\n", "+11\n", "-10\n"]) == ({11}, "m-1")
