"""Why a run failed, read from its logs: one rule a cause, the earliest real one wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.blame import Log, explain
from jobs.causes import CAUSES as GENERAL
from jobs.engines.dialect import FATAL, FOLLOWS, REQUEST, Cause
from jobs.engines.vllm_causes import CAUSES as VLLM
from tests.test_jobs_engine_words import CPU_LOG, GPU_LOG

ALL = (*VLLM, *GENERAL)


def told(folder: Path, dead: tuple[str, int] | None = None, /, **logs: str) -> str:
    """What is said of logs with these texts."""
    found = []
    for name, text in logs.items():
        path = folder / f"{name}.log"
        path.write_text(text + "\n")
        found.append(Log(name, path))
    return explain(found, VLLM, dead)


@pytest.mark.parametrize("cause", ALL, ids=lambda cause: cause.meaning[:50])
def test_every_rule_has_an_example_that_it_and_no_earlier_rule_finds(
    cause: Cause, tmp_path: Path
) -> None:
    assert cause.example
    assert cause.advice
    assert cause.kind in (FATAL, REQUEST, FOLLOWS)
    first = next(it for it in ALL if it.words.search(cause.example))
    assert first.meaning == cause.meaning
    text = told(tmp_path, None, w=cause.example)
    assert cause.meaning in text
    assert cause.advice in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("AssertionError: Local block size 16 is not divisible by remote block size 32", "--block"),
        (
            "AssertionError: Remote block size 32 must be divisible by local block size 12",
            "--block",
        ),
        ("RuntimeError: Unable to find address for: bond0", "this node does not have"),
        (
            "[gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:14215",
            "loopback",
        ),
        ("n:7:8 [0] NCCL WARN Cuda failure 800 'operation not permitted'", "channel is mis"),
        (
            "ImportError: /home/u/.cache/vllm/torch_extensions/x.so: file too short",
            "share a compile",
        ),
        (
            "OSError: [Errno 116] Stale file handle: '/home/u/.triton/cache/A/k.json'",
            "share a comp",
        ),
        (
            "json.decoder.JSONDecodeError: Expecting value /home/u/.triton/cache/A/g.json",
            "share a c",
        ),
        ("torch._inductor.exc.InductorError: EOFError: Ran out of input", "share a compile"),
        ("OSError: [Errno 116] Stale file handle: '/models/x/config.json'", "shared file system"),
        ("FileNotFoundError: No such file or directory: '/m/x.safetensors'", "file of the model"),
        ("srun: error: CPU binding outside of job step allocation, allocated", "were inherited"),
        ("srun: fatal: cpus-per-task set by two different environment variables A=1", "unset both"),
        ("AssertionError: 3-read requires DS conv state layout", "VLLM_SSM_CONV_STATE_LAYOUT=DS"),
        ("(Worker pid=9) torch.cuda.OutOfMemoryError: CUDA out of memory. Tried", "GPU's memory"),
        ("RuntimeError: CUDA error: out of memory", "GPU's memory"),
        ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (665)", "max-num"),
        ("Timed out waiting for engine core processes to start. See root cause above", "start_s"),
        ("ValueError: Unable to find address for: ^lo,docker", "device names only"),
        ("RuntimeError: corrupted compilation artifact", "VLLM_CACHE_ROOT"),
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted cuMemCreate(&handle",
            "channel is mis",
        ),
        ("cuMemImportFromShareableHandle failed: CUDA_ERROR_NOT_PERMITTED", "different NVLink dom"),
        ("OSError: [Errno 98] Address already in use", "ports"),
        ("zmq.error.ZMQError: Address already in use (addr='tcp://10.0.0.1:5600')", "ports"),
        ("OSError: [Errno 99] Cannot assign requested address", "another node"),
        ("srun: error: node1: task 0: Out Of Memory", "OOM kill"),
        ("srun: error: Node failure on gb200-07", "node went down"),
        ("[Errno 2] No such file or directory: '/m/model-00001-of-00002.safetensors'", "stage"),
        ("OSError: You are trying to access a gated repo.", "gated"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "hardware fault"),
        ("NVRM: Xid (PCI:0008:01:00): 79, pid=1, GPU has fallen off the bus.", "hardware fault"),
        ("ImportError: /lib/libc.so.6: version `GLIBC_2.38' not found", "too old"),
        ("The NVIDIA driver on your system is too old (found version 12040)", "driver is too old"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'", "full"),
        ("ModuleNotFoundError: No module named 'nixl'", "environment is incomplete"),
        ("slurmstepd: error: execve(): /opt/vllm: Exec format error", "aarch64"),
        ("slurmstepd: error: pyxis: failed to import docker image", "container"),
    ],
)
def test_siblings_of_known_messages_are_found(line: str, words: str, tmp_path: Path) -> None:
    assert words in told(tmp_path, None, w=f"something else\n{line}")


def test_healthy_lines_are_no_cause(tmp_path: Path) -> None:
    lines = [
        CPU_LOG,
        GPU_LOG,
        "(Worker pid=3) INFO VLLM_SSM_CONV_STATE_LAYOUT env detected. Setting layout to DS.",
        "(Worker pid=3) INFO NIXL compatibility check passed (hash: 74708be8)",
        "INFO 08-01 20:14:00 [x.py:1] CUDA out of memory is avoided by lowering the limit",
        "WARNING 08-01 20:14:00 [x.py:1] Permission denied: '/root/.config/vllm/usage_stats.json'",
        "(APIServer pid=1) WARNING 08-01 20:14:00 No module named 'vllm._version'",
        "Exception ignored in: <coroutine object listen.<locals>.serve at 0x7f9297f0b230>",
        "RuntimeError: Event loop is closed",
        "ImportError: cannot import name 'x' from 'flash_attn': not installed, falling back",
        "resource_tracker: There appear to be 1 leaked shared_memory objects to clean up",
        "node1:12:34 [0] NCCL INFO NET/IB : No device found. No such file or directory",
        "[1795984274.165186] [node1:77:0] UCX  WARN  network device 'eth9' is not available",
    ]
    assert told(tmp_path, None, w="\n".join(lines)) == ""


def test_the_earliest_real_cause_wins_over_louder_and_later_ones(tmp_path: Path) -> None:
    lost = "ERROR 08-01 20:14:09 [Gloo] Failed to recv, got 0 bytes. Connection was likely closed."
    text = told(
        tmp_path,
        ("decode0.n0", 1),
        **{
            "decode0.n0": "\n".join(
                [lost] * 50 + ["RuntimeError: Engine core. See root cause above"]
            )
        },
        router="2026-08-01 20:14:10 ERROR worker http://10.0.0.2:8200 is unhealthy",
        prefill0="ERROR 08-01 20:14:05 OSError: [Errno 28] No space left on device: '/tmp/x'",
        prefill1="ERROR 08-01 20:14:06 torch.OutOfMemoryError: CUDA out of memory. Tried",
    )
    assert "likely cause: a disk (or /dev/shm) is full (prefill0:" in text


def test_who_died_first_decides_within_one_second(tmp_path: Path) -> None:
    line = "ERROR 08-01 20:14:05 [x.py:1] RuntimeError: CUDA error: an illegal memory access was"
    full = "ERROR 08-01 20:14:05 [x.py:1] OSError: [Errno 28] No space left on device"
    assert "(decode1:" in told(tmp_path, ("decode1", 1), decode0=full, decode1=line)


def test_a_killed_rank_is_told_by_its_exit_code_not_by_its_peers_complaints(tmp_path: Path) -> None:
    text = told(
        tmp_path,
        ("decode0.n1", 137),
        **{"decode0.n0": "Failed to recv, got 0 bytes. Connection was likely closed."},
        **{"decode0.n1": "(Worker pid=3) INFO 08-01 20:14:00 running"},
    )
    assert text.startswith("likely cause: killed by SIGKILL")
    assert "out-of-memory" in text


def test_a_server_that_ends_with_0_since_its_engine_process_is_gone_says_so(tmp_path: Path) -> None:
    """As vLLM 0.32.0's API server did when its engine core got SIGKILL in the middle of streams."""
    lines = (
        "(APIServer pid=24263) WARNING 11-29 23:49:40 [serving.py:299]     await self._send_input(",
        "(APIServer pid=24263) WARNING 11-29 23:49:40 [serving.py:299] vllm.v1.engine.exceptions."
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root",
    )
    text = told(tmp_path, ("decode0", 0), decode0="\n".join(lines), prefill0=lines[1])
    assert text.startswith("likely cause: its engine process (EngineCore) ended before it (dec")
    assert "out-of-memory" in text
    assert "ended by itself" in told(
        tmp_path, ("decode0", 0), decode0="INFO bye", prefill0=lines[1]
    )


def test_a_spoilt_request_is_no_cause_of_a_death_but_of_failed_requests(tmp_path: Path) -> None:
    lease = "(Worker_TP0 pid=50) WARNING 08-16 08:09:07 Releasing expired KV blocks for request r-1"
    assert "segmentation fault" in told(tmp_path, ("prefill0", 139), prefill0=lease)
    assert "kv_lease_duration" in told(tmp_path, None, prefill0=lease)


def test_what_others_say_of_failed_requests_does_not_explain_a_death(tmp_path: Path) -> None:
    text = told(
        tmp_path,
        ("prefill0", 1),
        prefill0="INFO all is well",
        decode0="ERROR 08-01 20:14:09 NIXL transfer failure: handshake_setup_failed",
    )
    assert text == ""


def test_an_exception_without_a_rule_is_quoted(tmp_path: Path) -> None:
    text = told(tmp_path, ("w", 1), w="Traceback (most recent call last):\nodd.Error: strange 7")
    assert text == "likely cause: w raised: 'odd.Error: strange 7'"


def test_slow_loading_is_no_hang_and_its_time_is_estimated(tmp_path: Path) -> None:
    text = told(
        tmp_path,
        ("decode0", 1),
        decode0="(Worker pid=10) Loading safetensors checkpoint shards:  64% Completed | 110/170 "
        "[09:10<05:00,  5.00s/it]\n(APIServer pid=1) TimeoutError: Timed out waiting for engines "
        "to send initial message on input socket.",
    )
    assert "110 of 170 shards after 550 s, so all take about 850 s" in text
    assert "VLLM_ENGINE_READY_TIMEOUT_S" in text


def test_an_error_that_was_survived_long_ago_is_not_the_cause(tmp_path: Path) -> None:
    text = told(
        tmp_path,
        ("w", 1),
        w="ERROR 08-01 10:00:00 OSError: [Errno 28] No space left on device\n"
        "ERROR 08-01 20:14:05 RuntimeError: CUDA error: an illegal memory access was encountered",
    )
    assert "a GPU kernel failed" in text
