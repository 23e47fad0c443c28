"""What jobs/ makes of real text from H200 GPUs: nvidia-smi and vLLM's logs, both on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.blame import Log, explain, findings
from jobs.engines.vllm import VllmDialect
from jobs.preflight import gpus
from tests.test_preflight_node import SPEC

RECORD = Path(__file__).parent.parent / "benchmarks" / "records" / "2026-11-29-h200-capacity"
REAL = (RECORD / "machine" / "nvidia-smi-q.txt").read_text()
HEALTHY = ("prefill-decode/prefill0", "prefill-decode/decode0", "expert-parallel/aggregated0")


def run_log(path: str) -> Log:
    """A worker's log in the record."""
    return Log(path.partition("/")[2], RECORD / "launches" / f"{path}.log")


def test_the_real_nvidia_smi_is_read() -> None:
    facts = gpus.gpu_facts(REAL)
    assert (facts["driver"], facts["cuda"], facts["gpus"]) == ("580.159.04", "13.0", 2)
    assert facts["gpu_products"] == ["NVIDIA H200"]
    assert facts["gpu_memory_mib"] == [143771, 143771]
    assert facts["nvlink_domains"] == []


@pytest.mark.parametrize(("asked", "state"), [(2, "ok"), (1, "ok"), (3, "failed")])
def test_two_idle_gpus_are_fit_for_plans_of_two(asked: int, state: str) -> None:
    found = {
        f["check"]: f["state"]
        for f in gpus.gpu_checks({**SPEC, "needs_gpu": True, "gpus": asked}, REAL)
    }
    assert found == {"GPUs": state, "GPUs idle": "ok", "GPU health": "ok"}


def test_a_fabric_of_one_host_is_up_and_names_no_domain() -> None:
    found = {f["check"]: f["state"] for f in gpus.fabric_checks(gpus.parse(REAL)["gpus"])}
    assert found == {"NVLink fabric": "ok"}


@pytest.mark.parametrize("path", HEALTHY)
def test_nothing_in_the_log_of_a_healthy_worker_is_blamed_until_it_is_stopped(path: str) -> None:
    assert findings(run_log(path), VllmDialect.causes, 2026) == []


@pytest.mark.parametrize("path", HEALTHY)
def test_the_start_up_of_a_real_worker_is_followed_to_its_end(path: str) -> None:
    lines = run_log(path).path.read_text().splitlines()
    marks = {mark.phase for line in lines if (mark := VllmDialect().start_up(line))}
    assert {"import", "weights", "kv", "ready"} <= marks
    assert max(marks, key=VllmDialect.phases.index) == VllmDialect.phases[-1]


def test_unequal_blocks_between_prefill_and_decode_are_told_as_the_cause() -> None:
    logs = [run_log(f"unequal-states/{name}") for name in ("prefill0", "decode0")]
    told = explain(logs, VllmDialect.causes)
    assert "Local block size 2128 is not divisible by remote block size 4176" in told
    assert "block" in told.partition("(")[0]


def test_too_many_sequences_for_the_blocks_are_told_as_the_cause() -> None:
    told = explain([Log("decode0", RECORD / "starts" / "18.log")], VllmDialect.causes)
    assert "more sequences than blocks for recurrent state" in told
