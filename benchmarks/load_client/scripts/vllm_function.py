"""vLLM's request function without vLLM: python vllm_function.py FILE URL PROMPTS CONCURRENCY

FILE is vllm/benchmarks/lib/endpoint_request_func.py; session and semaphore are as in its serve.py.
For machines where vLLM cannot be installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
import time
from pathlib import Path
from types import ModuleType

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[3]))
from peer_result import raise_files, tell

from jobs.prompts.reader import PromptFile


def load(path: str) -> ModuleType:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("request_function", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    # Used by other endpoints only, and not everywhere installed.
    sys.modules.setdefault("regex", re)
    spec.loader.exec_module(module)
    return module


async def send(vllm: ModuleType, url: str, prompts: PromptFile, concurrency: int) -> list:
    """All requests, as vllm/benchmarks/serve.py sends them."""
    connector = aiohttp.TCPConnector(
        limit=concurrency, limit_per_host=concurrency, keepalive_timeout=60, force_close=False
    )
    timeout = aiohttp.ClientTimeout(total=6 * 60 * 60)
    room = asyncio.Semaphore(concurrency)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def one(asked: object) -> object:
            async with room:
                return await vllm.async_request_openai_completions(asked, session)

        inputs = [
            vllm.RequestFuncInput(
                prompt=prompts.ids(i) if prompts.form == "ids" else prompts.text(i).decode(),
                api_url=f"{url}/v1/completions",
                prompt_len=int(prompts.prompt_tokens[i]),
                output_len=int(prompts.output_tokens[i]),
                model="fake",
                ignore_eos=True,
            )
            for i in range(prompts.warmup, len(prompts))
        ]
        begun = time.process_time(), time.monotonic()
        outputs = await asyncio.gather(*(asyncio.create_task(one(asked)) for asked in inputs))
        spent = time.process_time() - begun[0], time.monotonic() - begun[1]
    return [spent, outputs]


def main(file: str, url: str, path: str, concurrency: int) -> None:
    """One run."""
    raise_files()
    (cpu, wall), outputs = asyncio.run(
        send(load(file), url, PromptFile.open(Path(path)), concurrency)
    )
    good = [(o.ttft, o.latency, o.output_tokens) for o in outputs if o.success]
    tell(cpu, wall, len(outputs) - len(good), good)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
