"""What the job reads from vLLM: logs, metrics, answers. Samples are shortened real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.causes import exit_cause, exit_text
from jobs.engines import dialect_of
from jobs.engines.vllm import VllmDialect
from jobs.errors import RunRefusedError
from jobs.logs import LogReader, last_lines
from jobs.prometheus import parse_metrics

VLLM = VllmDialect()

CPU_LOG = """\
Triton is installed, but doesn't include CPU backend. Disabling Triton.
(APIServer pid=1) INFO [model.py:733] Resolved architecture: Qwen3_5Moe
(EngineCore pid=2) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with
(Worker pid=3) INFO [cpu_model_runner.py:68] Starting to load model /models/tiny...
(Worker pid=3) INFO [default_loader.py:501] Loading weights took 0.01 seconds
(Worker) INFO Explicitly set (0.12/11.84) GiB for KV cache on node 0.
(EngineCore pid=2) INFO [kv_cache_utils.py:2327] CPU KV cache size: 190,650 tokens
(EngineCore pid=2) INFO [core.py:402] init engine (profile, create kv cache) took 2.44 s
INFO:     Application startup complete.
"""
GPU_LOG = """\
(APIServer pid=1) INFO [api_utils.py:286] non-default args: {'model': 'm', 'port': 8100}
(EngineCore_DP0 pid=2) INFO [core.py:133] Initializing a V1 LLM engine (v0.33.0) with
(Worker_DP0 pid=3) INFO [gpu_model_runner.py:5040] Starting to load model m...
(Worker_DP0 pid=3) Loading safetensors checkpoint shards:  64% Completed | 110/170 [09:10<05:00]
(Worker_DP0 pid=3) INFO [gpu_model_runner.py:5150] Model loading took 43.6 GiB memory
(Worker_DP0 pid=3) INFO [backends.py:1] Dynamo bytecode transform time: 12.10 s
(Worker_DP0 pid=3) INFO [monitor.py:1] torch.compile takes 45.02 s in total
(Worker_DP0 pid=3) INFO [gpu_worker.py:760] Available KV cache memory: 118.2 GiB
(EngineCore_DP0 pid=2) INFO [kv_cache_utils.py:2327] GPU KV cache size: 2,100,000 tokens
(Worker_DP0 pid=3) Capturing CUDA graphs (decode, FULL):  43%|####3     | 35/83
(Worker_DP0 pid=3) INFO [gpu.py:65] Graph capturing finished in 9 secs, took 1.20 GiB
(EngineCore_DP0 pid=2) INFO [core.py:402] init engine (profile, create kv cache) took 66.00 s
"""


def phases(text: str) -> list[str]:
    """Distinct phases in order of their first line."""
    found = [mark.phase for line in text.splitlines() if (mark := VLLM.start_up(line))]
    return list(dict.fromkeys(found))


def test_a_cpu_start_up_is_read_in_order() -> None:
    assert phases(CPU_LOG) == ["import", "config", "engine", "weights", "kv", "ready"]


def test_a_gpu_start_up_is_read_in_order_with_percent() -> None:
    expected = ["config", "engine", "weights", "compile", "kv", "graphs", "ready"]
    assert phases(GPU_LOG) == expected
    percents = [
        (mark.phase, mark.percent)
        for line in GPU_LOG.splitlines()
        if (mark := VLLM.start_up(line)) and mark.percent is not None
    ]
    assert percents == [("weights", 64), ("graphs", 43)]


def test_all_phases_are_known_words() -> None:
    assert set(phases(CPU_LOG) + phases(GPU_LOG)) < set(VLLM.phases)


METRICS = """\
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 56.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 29704.0
vllm:prompt_tokens_by_source_total{engine="10",model_name="m",source="external_kv_transfer"} 296.0
vllm:prompt_tokens_by_source_created{engine="0",model_name="m",source="local_compute"} 1.79e+09
vllm:nixl_bytes_transferred_sum{engine="0",model_name="m"} 3.026944e+07
vllm:nixl_bytes_transferred_count{engine="0",model_name="m"} 56.0
vllm:nixl_num_failed_transfers_total{engine="0",model_name="m"} 0.0
vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 0.0
vllm:num_requests_running{engine="2",model_name="a \\"b\\" \\\\ c"} NaN
broken line without a number
"""


def test_metrics_are_read_by_engine_and_summed() -> None:
    samples = parse_metrics(METRICS)
    assert VLLM.engines(samples) == ["0", "2", "10"]
    every = VLLM.counters(samples)
    assert (every.external_tokens, every.local_tokens) == (30000.0, 56.0)
    assert (every.kv_bytes, every.kv_transfers, every.kv_failed) == (30269440.0, 56.0, 0.0)
    assert every.generation_tokens is None
    assert VLLM.counters(samples, "10").external_tokens == 296.0


def test_label_escapes_are_undone() -> None:
    names = [s.labels["model_name"] for s in parse_metrics(METRICS) if "running" in s.name]
    assert names == ['a "b" \\ c']


def test_a_rank_is_named_by_its_place_behind_the_url_and_only_where_there_are_several() -> None:
    assert VLLM.rank_headers(3, 4) == {"X-data-parallel-rank": "3"}
    assert VLLM.rank_headers(0, 1) == {}


def test_a_hand_over_that_decode_would_ignore_is_a_problem() -> None:
    good = {
        "do_remote_prefill": True,
        "remote_engine_id": "e_dp0",
        "remote_block_ids": [[1]],
        "remote_host": "10.0.0.1",
        "remote_port": 5600,
    }
    assert VLLM.transfer_problem(good) is None
    assert "remote_host" in (VLLM.transfer_problem(good | {"remote_host": None}) or "")
    assert "nothing over" in (VLLM.transfer_problem(None) or "")


def test_an_answer_is_read_and_anything_else_is_a_value_error() -> None:
    payload = {
        "choices": [
            {
                "token_ids": [5],
                "logprobs": {
                    "tokens": ["token_id:5"],
                    "top_logprobs": [{"token_id:5": -0.1, "token_id:6": -2.0}],
                },
            }
        ],
        "kv_transfer_params": {"remote_port": 1},
        "usage": {"prompt_tokens": 7},
    }
    answer = VLLM.read_answer(payload)
    assert (answer.token_ids, answer.prompt_tokens) == ([5], 7)
    assert answer.tops == [{"token_id:5": -0.1, "token_id:6": -2.0}]
    wrongs: list[Any] = [{}, {"choices": []}, [], None, {"error": {"message": "no"}}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="not a completion"):
            VLLM.read_answer(wrong)


def test_an_unknown_protocol_lists_the_known_ones() -> None:
    with pytest.raises(RunRefusedError, match="speaks vllm"):
        dialect_of("smoke_signals")


def test_exit_codes_are_told_with_their_signals() -> None:
    assert exit_text(-9) == "SIGKILL"
    assert exit_text(137) == "rc 137 (SIGKILL)"
    assert exit_text(1) == "rc 1"
    assert exit_text(0) == "rc 0"
    assert exit_text(255) == "rc 255"
    assert exit_cause(137) == exit_cause(-9)


def test_new_lines_come_once_and_progress_bars_count_as_lines(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    log.write_text("of an earlier attempt\n")
    reader = LogReader(log, log.stat().st_size)
    with log.open("a") as stream:
        stream.write("shards: 10%\rshards: 20%\rhalf a li")
        stream.flush()
        assert reader.new_lines() == ["shards: 10%", "shards: 20%"]
        stream.write("ne\n")
        stream.flush()
        assert reader.new_lines() == ["half a line"]
        assert reader.new_lines() == []


def test_the_tail_leaves_access_logs_out_and_begins_with_the_first_error(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    lines = ["old", "ERROR the origin", *(f"later {i}" for i in range(30))]
    lines += ['INFO: 127.0.0.1 - "GET /health HTTP/1.1" 200 OK'] * 50
    log.write_text("\n".join(lines) + "\n")
    shown = last_lines(log, 4, VLLM.is_noise, 5)
    assert shown == ["ERROR the origin", "...", "later 27", "later 28", "later 29"]
