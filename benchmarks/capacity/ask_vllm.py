"""Starts vLLM once for each combination of flags and keeps what it decided about its KV cache.

    python ask_vllm.py MODELS OUT [--at-once N] [--only NAME ...]

MODELS is a folder from make_models.py, OUT gets NAME.json and NAME.log each. Every start is a
process of its own; those without `alone` share the GPU, N at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from combinations import COMBINATIONS, Combination

START_S = 240
PREFILL_TOKENS, SEQUENCES, DECODE_STEPS = 8000, 16, 32


def main() -> None:
    """Asks in parallel, then one after another where the GPU must be otherwise idle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models")
    parser.add_argument("out", type=Path)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--here", action="store_true", help="in this process: one of --only")
    given = parser.parse_args()
    wanted = [c for c in COMBINATIONS if not given.only or c.name in given.only]
    if given.here:
        _answer(wanted[0], given.models, given.out)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.at_once) as pool:
        shared = [c for c in wanted if not c.alone]
        list(pool.map(lambda c: _start(c, given.models, given.out), shared))
    for combination in wanted:
        if combination.alone:
            _start(combination, given.models, given.out)


def _start(combination: Combination, models: str, out: Path) -> None:
    command = [sys.executable, __file__, models, str(out), "--only", combination.name, "--here"]
    began = time.monotonic()
    with (out / f"{combination.name}.log").open("w", encoding="utf-8") as log:
        try:
            code = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=START_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    took = f"{time.monotonic() - began:.0f} s"
    print(combination.name, combination.model, code, took, flush=True)  # noqa: T201


def _answer(combination: Combination, models: str, out: Path) -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    _first_choice_only()
    argv = combination.argv(models)
    answer: dict[str, Any] = {"name": combination.name, "model": combination.model, "argv": argv}
    try:
        _ask(argv, answer, combination.steps)
    except Exception as error:  # noqa: BLE001 - refusals are answers too
        traceback.print_exc()
        answer["error"] = f"{type(error).__name__}: {error}"
    (out / f"{combination.name}.json").write_text(json.dumps(answer, indent=1) + "\n")
    sys.stdout.flush()
    os._exit(0)


def _first_choice_only() -> None:
    """Triton tries one configuration a kernel instead of all: speed is not asked here."""
    try:
        from triton.runtime.autotuner import Autotuner  # noqa: PLC0415
    except ImportError:
        return

    usual: Callable[..., None] = Autotuner.__init__

    def narrowed(self: Any, fn: Any, names: Any, configs: Any, *rest: Any, **named: Any) -> None:
        usual(self, fn, names, configs[:1], *rest, **named)

    Autotuner.__init__ = narrowed


def _ask(argv: list[str], answer: dict[str, Any], steps: bool) -> None:
    began = time.monotonic()
    import torch  # noqa: PLC0415
    import vllm  # noqa: PLC0415
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
    from vllm.usage.usage_lib import UsageContext  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity as capacity  # noqa: PLC0415
    from vllm.v1.engine import core  # noqa: PLC0415
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

    times = answer.setdefault("seconds", {})
    times["import"] = time.monotonic() - began
    answer["versions"] = {"vllm": vllm.__version__, "torch": torch.__version__}
    usual = core.get_kv_cache_configs

    def watched(config: Any, specs: Any, memory: list[int]) -> Any:
        answer["available_bytes"] = list(memory)
        answer["max_num_seqs"] = config.scheduler_config.max_num_seqs
        answer["max_num_batched_tokens"] = config.scheduler_config.max_num_batched_tokens
        answer["attention_block_size"] = config.cache_config.block_size
        answer["mamba_page_size_padded"] = config.cache_config.mamba_page_size_padded
        answer["mamba_cache_mode"] = config.cache_config.mamba_cache_mode
        found = usual(config, specs, memory)
        answer["blocks"] = found[0].num_blocks
        answer["groups"] = [
            {
                "layers": len(group.layer_names),
                "kind": type(group.kv_cache_spec).__name__,
                "block_size": group.kv_cache_spec.block_size,
                "page_bytes": group.kv_cache_spec.page_size_bytes,
            }
            for group in found[0].kv_cache_groups
        ]
        answer["tokens"], answer["max_concurrency"] = capacity(config, found[0])
        return found

    core.get_kv_cache_configs = watched
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    began = time.monotonic()
    engine = LLMEngine.from_engine_args(
        EngineArgs.from_cli_args(parser.parse_args(argv)), UsageContext.OPENAI_API_SERVER
    )
    times["start"] = time.monotonic() - began
    worker = engine.engine_core.engine_core.model_executor.driver_worker.worker
    snapshot = getattr(worker, "init_snapshot", None)
    parameters = list(worker.get_model().parameters())
    answer["memory"] = {
        "weights": getattr(worker.model_runner, "model_memory_usage", None),
        "parameters": sum(p.numel() * p.element_size() for p in parameters),
        "total": getattr(snapshot, "total_memory", None),
        "free_at_start": getattr(snapshot, "free_memory", None),
    }
    for name in ("requested_memory", "peak_activation_memory", "non_torch_memory"):
        answer["memory"][name] = getattr(worker, name, None)
    answer["memory"]["graphs_estimate"] = getattr(worker, "cudagraph_memory_estimate", None)
    if steps:
        _step(engine, answer)


def _step(engine: Any, answer: dict[str, Any]) -> None:
    """One prefill, then decode steps of several sequences, each timed; the first ones compile."""
    from vllm import SamplingParams  # noqa: PLC0415

    for attempt in ("cold", "warm"):
        times: dict[str, Any] = {}
        sampling = SamplingParams(max_tokens=1, ignore_eos=True, temperature=0)
        prompt = {"prompt_token_ids": list(range(1, 251)) * (PREFILL_TOKENS // 250)}
        engine.add_request(f"{attempt}-prefill", prompt, sampling)
        times["prefill_8000"] = _run_dry(engine)
        sampling = SamplingParams(max_tokens=DECODE_STEPS, ignore_eos=True, temperature=0)
        for i in range(SEQUENCES):
            prompt = {"prompt_token_ids": [i + 1] * 200}
            engine.add_request(f"{attempt}-{i}", prompt, sampling)
        times["decode_16"] = _run_dry(engine)
        answer["seconds"][attempt] = times


def _run_dry(engine: Any) -> list[float]:
    steps = []
    while engine.has_unfinished_requests():
        began = time.monotonic()
        engine.step()
        steps.append(round(time.monotonic() - began, 5))
    return steps


if __name__ == "__main__":
    main()
