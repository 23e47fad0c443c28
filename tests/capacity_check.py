"""Our capacity beside what a real vLLM logs.

    ENGINE_ENV=.engines/vllm_cpu python -m tests.capacity_check

starts vLLM's EngineCore once per case in one process, and `vllm serve` for some of them, reads the
lines that vLLM logs, compares, and writes docs/capacity-checked.md. Needs about ten minutes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.capacity import RoleCapacity
from tests.capacity_cases import CASES, SERVED, Case, engine_argv, model_folder, ours
from tests.engine import ENGINE_ENV

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "capacity-checked.md"
LOGGED = re.compile(
    r"KV cache size: ([\d,]+) tokens, "
    r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x"
)
ALIGNED = re.compile(r"Setting attention block size to (\d+) tokens")
INFO = re.compile(r"vllm:cache_config_info\{([^}]*)\}")
REFUSED = re.compile(r"estimated maximum model length is (\d+)")
CASE = "CASE "
PORT = 8123
START_S = 300.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_COLOR": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
}  # fmt: skip


@dataclass(frozen=True)
class Logged:
    """What one real start said. `aligned`: the block size it logged, None where it changed none."""

    release: str
    blocks: int
    block_tokens: int
    tokens: int
    length: int
    concurrency: str
    aligned: int | None
    stopped: str | None = None

    def facts(self) -> tuple[Any, ...]:
        """What must be equal: where vLLM refuses, the longest request that it says would fit."""
        if self.refused:
            return (self.length,)
        return (self.block_tokens, self.blocks, self.tokens, self.length, self.concurrency)

    @property
    def refused(self) -> bool:
        """Whether vLLM did not start because max-model-len does not fit in the pool."""
        return self.stopped is not None and REFUSED.search(self.stopped) is not None


def expected(role: RoleCapacity) -> tuple[Any, ...]:
    """The same of ours."""
    times = role.max_concurrency
    if role.longest_request != role.max_model_len or times is None:
        return (role.longest_request,)
    return (
        role.block_tokens, role.blocks, role.kv_cache_tokens, role.max_model_len, f"{times:.2f}",
    )  # fmt: skip


def environment() -> dict[str, str]:
    """A clean environment of the engine."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **ENVIRONMENT}


def in_process(cases: Sequence[Case], scratch: Path) -> dict[str, Logged]:
    """EngineCore started for every case in one process of the engine's Python."""
    entries = [
        [case.name, engine_argv(case, model_folder(case, ENGINE_ENV / "models", scratch))]
        for case in cases
    ]
    listing = scratch / "cases.json"
    listing.write_text(json.dumps(entries))
    done = subprocess.run(
        [ENGINE_ENV / "bin" / "python", ROOT / "tests" / "capacity_engine.py", listing],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
    )
    (scratch / "engine.log").write_text(done.stdout)
    if done.returncode:
        raise RuntimeError(f"capacity_engine.py failed:\n{done.stdout[-4000:]}")
    return dict(_cases(done.stdout))


def _cases(text: str) -> Iterator[tuple[str, Logged]]:
    log = ""
    for line in text.splitlines():
        if not line.startswith(CASE):
            log += line + "\n"
            continue
        found = json.loads(line.removeprefix(CASE))
        yield (
            found["name"],
            _logged(
                log, found["vllm"], found["blocks"] or 0, found["block_tokens"], found["error"]
            ),
        )
        log = ""


def _logged(log: str, release: str, blocks: int, block: int, stopped: str | None = None) -> Logged:
    line = LOGGED.search(log)
    refused = REFUSED.search(stopped or "")
    if refused:
        length = int(refused.group(1))
        return Logged(release, 0, block, 0, length, "", None, stopped)
    if line is None:
        raise RuntimeError(f"vLLM logged no KV cache size:\n{log[-4000:]}")
    tokens, length = (int(number.replace(",", "")) for number in line.groups()[:2])
    aligned = ALIGNED.search(log)
    return Logged(
        release=release,
        blocks=blocks,
        block_tokens=block,
        tokens=tokens,
        length=length,
        concurrency=line.group(3),
        aligned=int(aligned.group(1)) if aligned else None,
        stopped=stopped,
    )


def served(case: Case, scratch: Path, release: str) -> Logged:
    """A whole `vllm serve`: its log, and number of blocks and block size of its /metrics."""
    folder = model_folder(case, ENGINE_ENV / "models", scratch)
    _, path, *rest = engine_argv(case, folder)
    log = scratch / "serve.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [ENGINE_ENV / "bin" / "vllm", "serve", path, "--port", str(PORT),
             "--host", "127.0.0.1", *rest],
            env=environment(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            labels = _cache_labels(process, log)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)
    return _logged(
        log.read_text(), release, int(labels["num_gpu_blocks"]), int(labels["block_size"])
    )


def _cache_labels(process: subprocess.Popen[Any], log: Path) -> dict[str, str]:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as answer:
                info = INFO.search(answer.read().decode())
        except OSError:
            time.sleep(1)
            continue
        if info:
            return dict(re.findall(r'(\w+)="([^"]*)"', info.group(1)))
    raise RuntimeError(f"vllm serve did not answer:\n{log.read_text()[-4000:]}")


def record() -> int:
    """Run everything, print differences, write docs/capacity-checked.md. 1 if any differ."""
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        real = in_process(CASES, scratch)
        release = next(iter(real.values())).release
        whole = {case.name: served(case, scratch, release) for case in CASES if case.name in SERVED}
        models = ENGINE_ENV / "models"
        mine = {
            case.name: ours(case, model_folder(case, models, scratch), release) for case in CASES
        }
    wrong = [
        f"{name}: we say {expected(mine[name])}, vLLM {logged.facts()}"
        for found in (real, whole)
        for name, logged in found.items()
        if logged.facts() != expected(mine[name])
    ]
    sys.stdout.write("\n".join(wrong or ["all equal"]) + "\n")
    if not wrong:
        RECORD.write_text("\n".join(_page(real, whole, release)) + "\n")
    return bool(wrong)


def _page(real: dict[str, Logged], whole: dict[str, Logged], release: str) -> Iterator[str]:
    yield "# Our capacity against what vLLM logs"
    yield ""
    yield (
        f"Written by `python -m tests.capacity_check` on {datetime.now(UTC):%Y-%m-%d} with vLLM "
        f"{release} on CPU; not edited by hand. In every row"
    )
    yield (
        'block size, number of blocks, "KV cache size" and "Maximum concurrency" of '
        "`dry_run` equal what the real engine said."
    )
    yield (
        f"{len(real)} starts of vLLM's EngineCore from the flags as the launcher renders them; "
        f"{len(whole)} of them also as"
    )
    yield "whole `vllm serve` processes (marked). Models are those of envs/vllm_cpu, some edited."
    yield ""
    head = [
        *("case", "flags", "changed in config.json", "block", "blocks", "KV cache size"),
        *("maximum concurrency", "how"),
    ]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for case in CASES:
        logged = real[case.name]
        shown = " ".join(f"{key}={value}" for key, value in case.flags.items())
        edits = ", ".join(f"{key} {value}" for key, value in case.edits.items())
        how = "engine, serve" if case.name in whole else "engine"
        if logged.refused:
            how += ": refused, longest request that fits"
        elif logged.stopped:
            how += ", stopped after sizing (no fp8 kernel on this CPU)"
        yield (
            f"| {case.name} | `{shown}` | {edits} | {logged.block_tokens} | {logged.blocks} | "
            f"{logged.tokens:,} | {logged.concurrency}x of {logged.length:,} | {how} |"
        )


if __name__ == "__main__":
    sys.exit(record())
