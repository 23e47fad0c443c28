"""Mistakes put into a working command line, one by one and all at once: what is said, how fast.

`python -m tests.injections` runs the real command line for each and prints a table (Markdown);
docs/injected-mistakes.md is a copy of one such run.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRY = "dry_run=true"


@dataclass(frozen=True, slots=True)
class Injection:
    """One mistake: the words added to `python -m launcher`, and what the message must say."""

    words: tuple[str, ...]
    told: tuple[str, ...]


INJECTIONS: dict[str, Injection] = {
    "misspelt config key": Injection(
        ("cluster.gpus_per_nodee=4", DRY), ("nearest valid keys: cluster.gpus_per_node",)
    ),
    "unknown option of a group": Injection(
        ("topology=dep8_prefill9x2", DRY), ("did you mean dep8_prefill8x2?",)
    ),
    "DP size over the GPUs": Injection(
        ("cluster.nodes=4", "topology.roles.decode.dp=16", DRY),
        ("cluster.nodes=4: the topology needs 6 nodes", "dp 16) = 16 GPUs"),
    ),
    "DP size under the GPUs": Injection(
        ("cluster.nodes=4", "topology.roles.decode.dp=4", DRY),
        ("cluster.nodes=4: the topology needs 3 nodes", "4 GPUs would stay idle"),
    ),
    "a rank that a node cannot hold": Injection(
        ("topology.roles.prefill.tp=3", DRY), ("choose tp x pp of 1, 2, 4",)
    ),
    "DP size as an engine flag": Injection(
        ("+flags.roles.decode.data-parallel-size=16", DRY), ("the launcher derives this flag",)
    ),
    "more prefill endpoints than the allocation holds": Injection(
        ("cluster.nodes=18", "topology.roles.prefill.endpoints=40", DRY),
        ("cluster.nodes=18: the topology needs 22 nodes", "topology.roles.prefill.endpoints=32"),
    ),
    "42 nodes in one segment": Injection(
        ("cluster.segment=42", "topology.roles.prefill.endpoints=80", DRY),
        ("cluster.segment=42: one NVLink domain has 18 nodes",),
    ),
    "a segment that does not divide the nodes": Injection(
        ("cluster.segment=3", DRY), ("allowed: 1, 2, 4, auto or off",)
    ),
    "non-numeric concurrency": Injection(
        ("workload.concurrency=[64,many]", DRY),
        ("allowed: a list of whole numbers, as in [64,128]",),
    ),
    "no ISL": Injection(("workload.isl=null", DRY), ("workload.isl=null: allowed: a whole",)),
    "ISL left open": Injection(("workload.isl=???", DRY), ("workload.isl is not set (???)",)),
    "missing model path": Injection(
        (
            *("model.path=/models/none", "accuracy=none", "cluster.container.kind=pyxis"),
            "cluster.container.image=vllm/vllm-openai:v0.33.0",
        ),
        ("model.path=/models/none: there is no such folder",),
    ),
    "two endpoints' NIXL ports set alike": Injection(
        ("+model.env.VLLM_NIXL_SIDE_CHANNEL_PORT='5600'", DRY),
        ("the launcher sets it for every process",),
    ),
    "NIXL ports over HTTP ports": Injection(
        ("cluster.ports.nixl=8100", DRY), ("prefill0 (http) and prefill0 (nixl side channel",)
    ),
    "unequal block size": Injection(
        ("+flags.roles.decode.block-size=64", DRY),
        ("flags.roles.decode.block-size=64: prefill has auto, decode has 64",),
    ),
    "fp32 SSM on prefill, bf16 on decode": Injection(
        ("+flags.roles.prefill.mamba-ssm-cache-dtype=float32", DRY),
        ("prefill has float32, decode has bfloat16", "wrong bytes without an error"),
    ),
    "malformed kv-transfer JSON": Injection(
        ("flags.roles.decode.kv-transfer-config='{\"kv_connector\":'", DRY),
        (
            "flags.roles.decode.kv-transfer-config: value",
            "starts like JSON but is not",
            "keys without quotes",
        ),
    ),
    "kv-transfer JSON that the shell left bare": Injection(
        ('flags.roles.decode.kv-transfer-config={"kv_connector":"x"}', DRY),
        ("override flags.roles.decode.kv-transfer-config=", "docs/configure.md"),
    ),
    "misspelt vLLM flag": Injection(
        ("+flags.all.max-num-batched-token=8192", DRY), ("did you mean max-num-batched-tokens?",)
    ),
    "flag of another release": Injection(
        ("engine.release=0.26.0", "+flags.all.logging-config={}", DRY),
        ("vLLM 0.26.0 has no flag --logging-config: not there yet",),
    ),
    "wrong choice of a vLLM flag": Injection(
        ("flags.all.kv-cache-dtype=fp8_e4m4", DRY), ("did you mean fp8_e4m3?",)
    ),
    "a vLLM flag out of bounds": Injection(
        ("flags.all.gpu-memory-utilization=92", DRY), ("allowed: a share of the memory",)
    ),
    "misspelt connector": Injection(
        ("flags.all.kv-transfer-config.kv_connector=NIXLConnector", DRY),
        ("did you mean NixlConnector?",),
    ),
    "misspelt key of kv-transfer-config": Injection(
        ("+flags.all.kv-transfer-config.kv_rol=kv_both", DRY), ("did you mean kv_role?",)
    ),
    "misspelt variable": Injection(
        ("+flags.env.VLLM_LOGING_LEVEL=DEBUG", DRY), ("did you mean VLLM_LOGGING_LEVEL?",)
    ),
    "misspelt router flag": Injection(
        ("+router.flags.retry-max-retrys=3", DRY), ("did you mean retry-max-retries?",)
    ),
    "state layout SD": Injection(
        ("model.env.VLLM_SSM_CONV_STATE_LAYOUT=SD", DRY), ("=DS, for both roles",)
    ),
    "release before the race fixes": Injection(
        ("engine.release=0.25.0", DRY), ("use 0.26.0 or later",)
    ),
    "time limit as YAML reads it": Injection(
        ("cluster.time=5400", DRY), ("1:30:00 without quotes",)
    ),
    "several at once": Injection(
        (
            *("clutser=local", "topology=dep9", "workload.concurrency=[64,many]"),
            *("workload.isl=null", "cluster.time=9", "cluster.segment=42", "model.path=/none"),
            *("+flags.roles.prefill.mamba-ssm-cache-dtype=float32", "cluster.ports.nixl=8100"),
            *("cluster.gpus_per_nodee=4", "+flags.roles.decode.block-size=64"),
        ),
        (
            *("did you mean cluster?", "topology=dep9: no such option", "workload.concurrency"),
            *("workload.isl=null", "cluster.time='9'", "cluster.segment=42", "model.path=/none"),
            *("prefill has float32", "nixl side channel", "cluster.gpus_per_nodee"),
            "decode has 64",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Said:
    """What one command did."""

    code: int
    seconds: float
    cpu_s: float
    """User and system time: what a machine with other work on it does not distort."""
    stdout: str
    stderr: str


def run(words: tuple[str, ...]) -> Said:
    """`python -m launcher` in an empty folder."""
    kept = {key: value for key, value in os.environ.items() if key != "GSM8K_DIR"}
    with tempfile.TemporaryDirectory() as folder:
        begun, spent = time.monotonic(), _children_s()
        done = subprocess.run(
            [sys.executable, "-m", "launcher", *words],
            cwd=folder,
            env={**kept, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        seconds, cpu_s = time.monotonic() - begun, _children_s() - spent
        return Said(done.returncode, seconds, cpu_s, done.stdout, done.stderr)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows() -> Iterator[str]:
    yield "| mistake | words | exit | wall s | CPU s | said |"
    yield "|---|---|---|---|---|---|"
    for name, injection in INJECTIONS.items():
        said = run(injection.words)
        found = re.findall(r"^  \d+\. (.*)$", said.stderr, re.MULTILINE)
        text = "<br>".join(line.replace("|", "\\|") for line in found) or said.stderr.strip()
        words = " ".join(f"`{word}`" for word in injection.words)
        spent = f"{said.code} | {said.seconds:.2f} | {said.cpu_s:.2f}"
        yield f"| {name} | {words} | {spent} | {text} |"


if __name__ == "__main__":
    for row in _rows():
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
