"""`vllm bench serve`'s benchmark() over a prompt file: vllm_bench.py URL PROMPTS CONCURRENCY MODEL

Run by the engine's Python. Its imports and data set are not in the CPU seconds. Without arguments
it takes many runs, each a line of JSON ([url, prompts, concurrency, model, result file]) on its
standard input, and says `done` after each: its imports take a quarter of a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from peer_result import raise_files, tell
from vllm.benchmarks import serve

from jobs.prompts.reader import PromptFile


def main(url: str, path: str, concurrency: int, model: str) -> None:
    """One run."""
    raise_files()
    prompts = PromptFile.open(Path(path))
    asked = [
        serve.SampleRequest(
            prompt=prompts.ids(i) if prompts.form == "ids" else prompts.text(i).decode(),
            prompt_len=int(prompts.prompt_tokens[i]),
            expected_output_len=int(prompts.output_tokens[i]),
        )
        for i in range(prompts.warmup, len(prompts))
    ]
    given = {
        **{"task_type": serve.TaskType.GENERATION, "endpoint_type": "vllm", "tokenizer": None},
        **{"api_url": f"{url}/v1/completions", "base_url": url, "model_id": model},
        **{"model_name": model, "input_requests": asked, "logprobs": None, "profile": False},
        **{"request_rate": float("inf"), "burstiness": 1.0, "disable_tqdm": True},
        **{"num_warmups": 0, "selected_percentile_metrics": ["e2el"], "lora_modules": None},
        **{"selected_percentiles": [99.0], "ignore_eos": True, "goodput_config_dict": {}},
        **{
            "max_concurrency": concurrency,
            "extra_headers": None,
            "extra_body": {"temperature": 0.0},
        },
        **{"ready_check_timeout_sec": 0},
    }
    cpu, wall = time.process_time(), time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        got = asyncio.run(serve.benchmark(**given))
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    rows = list(zip(got["ttfts"], got["latencies"], got["output_lens"], strict=True))
    kept = [not error and row[2] for row, error in zip(rows, got["errors"], strict=True)]
    good = [row for row, keep in zip(rows, kept, strict=True) if keep]
    gaps = [g for itls, keep in zip(got["itls"], kept, strict=True) if keep for g in itls]
    told = {key: got[key] for key in ("request_throughput", "output_throughput")}
    tell(cpu, wall, len(rows) - len(good), good, gaps, **told)


def many() -> None:
    """One run for each line."""
    for line in sys.stdin:
        *run, result = json.loads(line)
        os.environ["PEER_RESULT"] = result
        main(*run)
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) == 1:
        many()
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
